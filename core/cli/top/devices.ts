/** Counters of the devices of our network namespace, without asking anybody: proc_pid_net(5), `/proc/net/dev`. */
import { readFileSync } from 'node:fs'
import type { Look } from '../verb.ts'

/** Empty where there is no /proc. */
export function readDevices(file = '/proc/self/net/dev'): Look['devices'] {
  try {
    return devicesIn(readFileSync(file, 'utf8'))
  } catch {
    return new Map()
  }
}

export function devicesIn(text: string): Look['devices'] {
  const lines = text
    .split('\n')
    .slice(2)
    .map((line) => /^\s*([^:\s]+):\s*(.*)$/.exec(line))
  return new Map(
    lines.flatMap((found) => {
      const [, name, rest] = found ?? []
      if (name === undefined || rest === undefined) return []
      const numbers = rest.trim().split(/\s+/).map(Number)
      return [[name, { received: numbers[0] ?? 0, sent: numbers[8] ?? 0 }] as const]
    }),
  )
}
