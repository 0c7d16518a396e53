/** How programs are attached on this node: found out once, and shared by all that attach some. */
import { NETLINK_ROUTE } from '../../netlink/bind.ts'
import { openNetlink } from '../../netlink/socket.ts'
import { type Attachments, attachments, type Form, type Kind } from './attachments.ts'
import { Filters } from './filters.ts'
import { tryForms } from './trial.ts'

export interface Attaching {
  /** What was tried and works. */
  readonly form: Form
  of(kind: Kind): Attachments
  /** Calls `listener` when others may have taken off what is attached, with the device if that is known; returns how to stop that. */
  onChange(listener: (ifindex: number | undefined) => void): () => void
  /** Number of the netlink socket that attaches; 0 when there is none. */
  port(): number
  close(): Promise<void>
}

export interface AttachingOptions {
  /** Tries only this form. */
  form?: Form
  /** Told when it is no longer heard what others do to filters. */
  onProblem(error: unknown): void
}

/**
 * Tries how programs are attached in this network namespace. Filters that another agent has left are kept up; where there
 * are none and tcx works, there is nothing to follow.
 * @throws Error that says why nothing can be attached
 */
export async function openAttaching({ form: only, onProblem }: AttachingOptions): Promise<Attaching> {
  const netlink = openNetlink(NETLINK_ROUTE)
  const filters = new Filters(netlink, onProblem)
  try {
    const form = await tryForms(netlink, filters, only)
    if (form === 'clsact' || (await filters.list()).length > 0) return joined(form, filters)
    await filters.close()
    return joined(form, undefined)
  } catch (error) {
    await filters.close()
    throw error
  }
}

const joined = (form: Form, filters: Filters | undefined): Attaching => ({
  form,
  of: (kind) => attachments(kind, form, filters),
  onChange: (listener) => filters?.onChange(listener) ?? (() => {}),
  port: () => filters?.port() ?? 0,
  close: async () => filters?.close(),
})
