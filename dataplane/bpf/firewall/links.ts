/**
 * The pinned links of the classifier, one for each address family. A link cannot be given another program: an upgrade
 * attaches the new one at the other of two places, so that packets pass both for a moment, and then ends the old link.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { KernelError } from '../../libc.ts'
import { CLASSIFIER_PRIORITIES } from '../../numbers.ts'
import { FOLDER, pinAt, pinsIn } from '../bpffs.ts'
import { attachNetfilter, type Link, openLink } from '../link.ts'
import type { BpfObject } from '../object.ts'

const PROGRAMS = { firewall4: 'ipv4', firewall6: 'ipv6' } as const
type ProgramName = keyof typeof PROGRAMS
const NAMES = Object.keys(PROGRAMS) as ProgramName[]

/** `<program>-<digest of the object that it comes from>` */
const PIN = /^(firewall[46])-([0-9a-f]{16})$/

export class FilterLinks {
  readonly #dir: string
  readonly #object: Pick<BpfObject, 'program'>
  readonly #digest: string

  /** `dir`: where links are pinned. `digest` tells programs of one build from those of another. */
  constructor(dir: string, object: Pick<BpfObject, 'program'>, digest: string) {
    this.#dir = join(dir, 'links')
    this.#object = object
    this.#digest = digest
    mkdirSync(this.#dir, FOLDER)
  }

  /** Attaches what is missing, and ends the links of other builds. True when something was missing. @throws KernelError */
  async attach(): Promise<boolean> {
    let missing = false
    for (const name of NAMES) {
      const pin = join(this.#dir, `${name}-${this.#digest}`)
      const priority = await priorityOf(pin)
      // The kernel does not tell that somebody has detached a link (bpftool), but then there is room at its place.
      let link = priority === undefined ? undefined : await this.#attachAt(name, priority)
      if (priority !== undefined && link === undefined) continue
      missing = true
      if (link === undefined) {
        // An upgrade that was cut short has left two, which have both places: one of them judges meanwhile.
        for (const spare of this.#others(name).slice(1)) await detach(join(this.#dir, spare))
        link = await this.#attach(name)
      } else {
        rmSync(pin, { force: true })
      }
      try {
        const attached = link
        pinAt(pin, () => attached.pin(pin))
      } finally {
        await link.close()
      }
    }
    for (const name of NAMES) for (const pin of this.#others(name)) await detach(join(this.#dir, pin))
    return missing
  }

  /** Pins of other builds. */
  #others(name: ProgramName): string[] {
    return pinsIn(this.#dir).filter((pin) => {
      const [, program, digest] = PIN.exec(pin) ?? []
      return program === name && digest !== this.#digest
    })
  }

  async #attach(name: ProgramName): Promise<Link> {
    const [first, second] = CLASSIFIER_PRIORITIES
    const link = (await this.#attachAt(name, first)) ?? (await this.#attachAt(name, second))
    if (link === undefined) throw new Error(`other BPF programs hold the places of ${name} at the prerouting hook`)
    return link
  }

  /** Undefined when that place is taken. */
  async #attachAt(name: ProgramName, priority: number): Promise<Link | undefined> {
    const place = { family: PROGRAMS[name], hook: 'prerouting', priority } as const
    try {
      return await attachNetfilter(this.#object.program(name), place)
    } catch (error) {
      if (error instanceof KernelError && error.code === 'EBUSY') return undefined
      throw error
    }
  }
}

/** Where the link that is pinned there was attached; undefined when there is none. */
async function priorityOf(pin: string): Promise<number | undefined> {
  const link = opened(pin)
  if (link === undefined) return undefined
  try {
    const info = link.info()
    return info.kind === 'netfilter' ? info.hook.priority : undefined
  } finally {
    await link.close()
  }
}

function opened(pin: string): Link | undefined {
  try {
    return openLink(pin)
  } catch (error) {
    if (error instanceof KernelError && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Unless it is gone. */
async function detach(pin: string): Promise<void> {
  const link = opened(pin)
  try {
    await link?.detach()
  } finally {
    await link?.close()
  }
}
