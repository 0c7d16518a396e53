/** The identity of this machine, as licences are bound to it. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** See machine-id(5). */
const MACHINE_ID_FILE = '/etc/machine-id'

/**
 * The first 32 hex digits of SHA-256(`stratum:` + machine id without its newline). Hashed because machine-id(5) asks
 * that the id itself is not shown to others.
 * @param read how to read a text file
 * @returns empty when the machine has no id (file missing, empty or `uninitialized`): no bound licence matches then
 */
export function hardwareId(read: (path: string) => string = (path) => readFileSync(path, 'utf8')): string {
  const machineId = readMachineId(read)
  if (machineId === '' || machineId === 'uninitialized') return ''
  return createHash('sha256').update(`stratum:${machineId}`).digest('hex').slice(0, 32)
}

function readMachineId(read: (path: string) => string): string {
  try {
    return read(MACHINE_ID_FILE).trim()
  } catch {
    // Missing or unreadable is the documented "no id": the operator is told where a licence asks for an id.
    return ''
  }
}
