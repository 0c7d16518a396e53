import type { KernelError } from '../../libc.ts'
import { RTM_DELADDR } from '../address.ts'
import { RTM_DELLINK } from '../link.ts'
import { RTM_DELNEIGH } from '../neighbour.ts'
import { RTM_DELROUTE } from '../route.ts'
import { RTM_DELRULE } from '../rule.ts'
import type { Netlink } from '../socket.ts'
import type { Message } from '../wire.ts'

const DELETIONS = new Set([RTM_DELLINK, RTM_DELADDR, RTM_DELROUTE, RTM_DELRULE, RTM_DELNEIGH])
/** What the kernel answers to a deletion of what is not there, by the kind of thing. */
const ABSENT = new Set(['ENODEV', 'EADDRNOTAVAIL', 'ESRCH', 'ENOENT'])

/** How to take back what has been done so far, in reverse. */
export class Journal {
  readonly #undos: (() => Promise<void>)[] = []

  add(undo: () => Promise<void>): void {
    this.#undos.push(undo)
  }

  /** Every step is tried; rejects with the first error. A second call does nothing. */
  async rollback(): Promise<void> {
    let failed: { error: unknown } | undefined
    for (const undo of this.#undos.splice(0).reverse()) {
      try {
        await undo()
      } catch (error) {
        failed ??= { error }
      }
    }
    if (failed) throw failed.error
  }
}

/** True when a deletion found nothing to delete, which is what it was for. */
export function wasAbsent(message: Message, error: KernelError): boolean {
  return DELETIONS.has(message.type) && ABSENT.has(error.code)
}

/**
 * Sends messages that take something back. What went away with its device meanwhile needs no taking back and cannot
 * be put back. Rejects with {@link KernelError} for everything else.
 */
export async function takeBack(netlink: Netlink, messages: readonly Message[]): Promise<void> {
  const errors = await netlink.request(messages)
  const failed = errors.find((error, at) => {
    const message = messages[at]
    return error && message && !wasAbsent(message, error) && error.code !== 'ENODEV'
  })
  if (failed) throw failed
}
