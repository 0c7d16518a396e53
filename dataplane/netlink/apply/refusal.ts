/** Why an entry could not be brought into force, in words for the operator. */
import { KernelError } from '../../libc.ts'
import { KernelRefusal, UncertainOutcome } from '../../plane.ts'
import type { NetlinkEntry } from '../entries.ts'
import { RT_TABLE_MAIN } from '../route.ts'

export interface Refused {
  entry: NetlinkEntry
  /** Name of the errno. */
  code: string
  text: string
}

/** What is in the way exists, and the agent did not make it. */
export function foreign(entry: NetlinkEntry): Refused {
  return { entry, code: 'EEXIST', text: `${nameOf(entry)} exists and is not ours` }
}

export function noSuchLink(entry: NetlinkEntry, name: string): Refused {
  return { entry, code: 'ENODEV', text: `${nameOf(entry)}: interface ${name} does not exist` }
}

/** The kernel's own words where it gave some. Throws UncertainOutcome when its answer was lost. */
export function refusedBy(error: KernelError, entry: NetlinkEntry): Refused {
  if (error.code === 'ENOBUFS') throw new UncertainOutcome(error.message, { cause: error })
  if (error.code === 'EEXIST' && !tunnelExists(error)) return foreign(entry)
  const words = error.extack === undefined ? error.meaning : `${error.meaning}: ${error.extack}`
  return { entry, code: error.code, text: `${nameOf(entry)}: ${words}` }
}

/** For errors that are not the kernel's answer to a message: a file of /proc/sys, a value that does not fit. */
export function refusedFor(error: unknown, entry: NetlinkEntry): Refused {
  if (error instanceof KernelError) return refusedBy(error, entry)
  const { code = 'EINVAL', message } = error as NodeJS.ErrnoException
  return { entry, code, text: `${nameOf(entry)}: ${message}` }
}

export function asError({ text }: Refused): KernelRefusal {
  return new KernelRefusal(text)
}

export function nameOf(entry: NetlinkEntry): string {
  switch (entry.kind) {
    case 'link':
      return `interface ${entry.name}`
    case 'member':
      return `${entry.link} as a port of ${entry.bridge}`
    case 'address':
      return `address ${entry.address} on ${entry.link}`
    case 'route': {
      const table = entry.table === RT_TABLE_MAIN ? 'the main table' : `table ${entry.table}`
      return `route to ${entry.destination} with metric ${entry.metric} in ${table}`
    }
    case 'policy':
      return `policy rule ${entry.priority} to table ${entry.table}`
    case 'neighbour':
      return `neighbour ${entry.address} on ${entry.link}`
    case 'fdb':
      return `forwarding of ${entry.mac} to ${entry.vtep} on ${entry.link}`
  }
}

/** Another tunnel has the number: the kernel says so, and the interface itself does not exist. */
function tunnelExists({ extack }: KernelError): boolean {
  return extack !== undefined && /VXLAN/.test(extack)
}
