/**
 * Whether this kernel attaches programs, and by which form: found out by attaching one. That is done on a veth pair of our
 * own, which is on no bridge, and is removed at once; what a killed agent left of it, the next one removes.
 */
import { closeSync } from 'node:fs'
import { KernelError } from '../../libc.ts'
import { createVeth, deleteLink, getLink } from '../../netlink/link.ts'
import type { Netlink } from '../../netlink/socket.ts'
import { checked, libbpf } from '../libbpf.ts'
import { attachTcx, type Direction } from '../link.ts'
import type { Program } from '../object.ts'
import type { Form } from './attachments.ts'
import type { Filters } from './filters.ts'
import { TRIAL_DEVICE, TRIAL_GROUP } from './numbers.ts'

/** linux/bpf.h */
const BPF_PROG_TYPE_SCHED_CLS = 3
/** `r0 = -1; exit`: goes on to the next program (struct bpf_insn). */
const PASSES = Buffer.from('b7000000ffffffff9500000000000000', 'hex')

const DIRECTIONS: readonly Direction[] = ['ingress', 'egress']

/** Runs `body` with the index of a device that carries nothing and is gone afterwards. @throws KernelError */
export async function onTrialDevice<T>(netlink: Netlink, body: (ifindex: number) => Promise<T>): Promise<T> {
  const [name, peer] = [TRIAL_DEVICE, `${TRIAL_DEVICE}p`]
  const remove = async () => {
    const there = await getLink(netlink, name)
    if (there === undefined) return
    // The name alone would not make it ours. That it is up, it may be because somebody sets up all that comes.
    if (there.kind !== 'veth' || there.group !== TRIAL_GROUP)
      throw new Error(`rename the interface ${name}: the agent needs that name`)
    const [error] = await netlink.request([deleteLink(name)])
    if (error && error.code !== 'ENODEV') throw error
  }
  await remove()
  await netlink.command(createVeth({ name, group: TRIAL_GROUP }, { name: peer }))
  try {
    const ifindex = (await getLink(netlink, name))?.index
    if (ifindex === undefined) throw new Error(`somebody has removed the interface ${name}`)
    return await body(ifindex)
  } finally {
    await remove()
  }
}

/**
 * The form in which this kernel attaches programs: tcx where it has it, unless `only` names the one to try.
 * @throws Error that says why none works
 */
export async function tryForms(netlink: Netlink, filters: Filters, only?: Form): Promise<Form> {
  const program = await loadTrial()
  const tries = { tcx: tryTcx, clsact: (...args: Parameters<typeof tryTcx>) => tryFilters(filters, ...args) }
  const refusals: string[] = []
  try {
    return await onTrialDevice(netlink, async (ifindex) => {
      for (const form of only === undefined ? (['tcx', 'clsact'] as const) : [only]) {
        try {
          for (const direction of DIRECTIONS) await tries[form](program, ifindex, direction)
          return form
        } catch (error) {
          if (!(error instanceof KernelError)) throw error
          refusals.push(`${form}: ${error.message}`)
        }
      }
      throw new Error(`the kernel attaches no program to an interface (${refusals.join('; ')})`)
    })
  } finally {
    closeSync(program.fd)
  }
}

async function tryTcx(program: Program, ifindex: number, direction: Direction): Promise<void> {
  const link = await attachTcx(program, ifindex, direction)
  await link.detach()
}

async function tryFilters(filters: Filters, program: Program, ifindex: number, direction: Direction): Promise<void> {
  const wish = { kind: 'port', ifindex, side: direction, set: 0, what: 'trial' } as const
  await filters.put(wish, program)
  const stands = (await filters.list()).some((it) => it.ifindex === ifindex && it.side === direction)
  if (!stands) throw new Error(`a filter at clsact ${direction} is not where it was put`)
  await filters.remove(wish)
}

async function loadTrial(): Promise<Program> {
  const name = 'trial'
  const loaded = await libbpf().loadProgram(BPF_PROG_TYPE_SCHED_CLS, name, 'GPL', PASSES, PASSES.length / 8, null)
  return { name, fd: checked(loaded, 'load a program of two instructions'), id: 0 }
}
