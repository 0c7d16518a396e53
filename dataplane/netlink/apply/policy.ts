/**
 * Policy rules. FRA_PROTOCOL, the owner's number, tells ours, and every deletion names it.
 *
 * The kernel removes the first rule that has all the fields of a deletion, and possibly more. So narrower rules are made
 * after wider ones and removed before them, and those that stay are out of the way for the moment of a removal. They
 * look up the same table at the same priority, so where they stand among each other does not matter.
 */
import type { PolicyEntry } from '../entries.ts'
import { addRule, deleteRule, mayRemove } from '../rule.ts'
import type { Message } from '../wire.ts'
import type { Scene } from './scene.ts'
import type { Round, Step } from './steps.ts'

/** What else is of ours in the kernel when a rule is removed; asked then. */
export type Others = () => readonly PolicyEntry[]

/** `others` without the entries themselves, as they are when the additions are taken back. */
export function addsPolicies(scene: Scene, entries: readonly PolicyEntry[], others: Others): Step[] {
  return wideFirst(entries).map((entry) => {
    const undo = () => removal(scene, entry, others()).messages
    return { entry, rounds: [{ messages: [addRule(entry, scene.owner(entry))], undo }] }
  })
}

/** `others` without the entries themselves. */
export function removesPolicies(scene: Scene, entries: readonly PolicyEntry[], others: Others): Step[] {
  if (entries.length === 0) return []
  const staying = others()
  return wideFirst(entries)
    .reverse()
    .map((entry) => {
      const undo = () => [addRule(entry, scene.owner(entry))]
      return { entry, rounds: [{ ...removal(scene, entry, staying), undo }] }
    })
}

function removal(scene: Scene, entry: PolicyEntry, staying: readonly PolicyEntry[]): Omit<Round, 'undo'> {
  const owner = scene.owner(entry)
  const near = staying.filter((other) => mayRemove(entry, other) && scene.owner(other) === owner)
  const aside = wideFirst(near).reverse()
  const messages: Message[] = [
    ...aside.map((other) => deleteRule(other, owner)),
    deleteRule(entry, owner),
    ...near.map((other) => addRule(other, owner)),
  ]
  return { messages, main: aside.length }
}

function wideFirst(entries: readonly PolicyEntry[]): PolicyEntry[] {
  return entries.toSorted((a, b) => Object.keys(a).length - Object.keys(b).length)
}
