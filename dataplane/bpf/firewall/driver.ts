/** The classifier as two drivers of the plane: that of the rules, and that of the default action. */
import type { Entry, Passage } from '../../entry.ts'
import { KernelError } from '../../libc.ts'
import { type Driver, KernelRefusal } from '../../plane.ts'
import type { FilterChange } from './classifier.ts'
import type { FilterDefault, FilterRule } from './entries.ts'
import { NoRoom } from './room.ts'
import type { DefaultAction } from './settings.ts'

export interface Enforcement {
  /** The rules that are in force, and the default once there is one; programs that were taken off are put back. */
  rules(): Promise<FilterRule[]>
  /** See {@link Driver.hold}. */
  hold(): Promise<void>
  default(): FilterDefault | undefined
  /** All or nothing, at one instant. @throws NoRoom */
  change(changes: readonly FilterChange[]): Promise<void>
  /** Undefined: as long as nobody has decided, packets pass that no rule decides. */
  setDefault(action: DefaultAction | undefined): void
  close(): Promise<void>
}

export function filterDrivers(enforcement: Enforcement): { rules: Driver; defaults: Driver } {
  return {
    rules: {
      name: 'classifier',
      kinds: ['filter'],
      hold: () => enforcement.hold(),
      observe: () => enforcement.rules(),
      async apply(diff) {
        try {
          await enforcement.change(diff.filter(isChange))
        } catch (error) {
          if (error instanceof NoRoom || error instanceof KernelError) throw new KernelRefusal(error.message)
          throw error
        }
      },
      close: () => enforcement.close(),
    },
    defaults: {
      name: 'classifier default',
      kinds: ['filter_default'],
      async observe() {
        const standing = enforcement.default()
        return standing === undefined ? [] : [standing]
      },
      async apply(diff) {
        for (const { after } of diff) {
          enforcement.setDefault(after?.kind === 'filter_default' ? after : undefined)
        }
      },
      close: async () => {},
    },
  }
}

/** All that it is given. */
const isChange = (passage: Passage): passage is FilterChange => isRule(passage.before) && isRule(passage.after)

const isRule = (entry: Entry | undefined): entry is FilterRule | undefined =>
  entry === undefined || entry.kind === 'filter'
