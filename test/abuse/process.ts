/** What the kernel says of a process and of the connections in a namespace. */
import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type { Netns } from '../netns.ts'

/** Resident set in MiB. */
export function rssOf(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

/** Established TCP connections that end at `port` inside `ns`, from `peer` if one is named. */
export function connectionsAt(ns: Netns, port: number, peer?: string): number {
  const where = [`sport = :${port}`, ...(peer === undefined ? [] : [`dst ${peer}`])].join(' and ')
  const lines = ns.run('ss', '-Htn', 'state', 'established', `( ${where} )`).split('\n')
  return lines.filter((line) => line !== '').length
}

/** Resolves to how long it took until `holds`, in ms; rejects after `most`. */
export async function until(what: string, holds: () => boolean, most = 20_000): Promise<number> {
  const start = performance.now()
  while (!holds()) {
    if (performance.now() - start > most) throw new Error(`${what}: not within ${most} ms`)
    await wait(100)
  }
  return performance.now() - start
}
