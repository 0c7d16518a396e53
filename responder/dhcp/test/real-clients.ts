/** Clients as guests run them: udhcpc of busybox and dhclient of ISC, each in the namespace of its guest. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { scratch } from '../../../test/build.ts'
import type { Netns, Scope } from '../../../test/netns.ts'

export interface RealClient {
  child: ChildProcess
  /** What it was told at its last step of that name (`bound`, `renew`, `nak` …), by name; undefined before. */
  told(step: string): Record<string, string> | undefined
  /** Resolves with that once it is there. */
  reached(step: string): Promise<Record<string, string>>
  /** Resolves to its exit code. */
  ended(): Promise<number | null>
}

/** Its script leaves what it is told in files, and sets the address. */
const SCRIPT = `#!/bin/sh
step=\${1:-$reason}
address=\${ip:-$new_ip_address}
case "$step" in
  bound|renew|BOUND|RENEW|REBOOT|REBIND) ip address replace "$address/24" dev "$interface" ;;
  deconfig|EXPIRE|RELEASE|FAIL) ip address flush dev "$interface" ;;
esac
env > "$OUT.$step.part" && mv "$OUT.$step.part" "$OUT.$step"
`

/** `once`: ends with the lease, or with code 1 after some seconds without an answer. */
export function udhcpc(t: Scope, ns: Netns, { ends = true, args = [] as readonly string[] } = {}): RealClient {
  const how = ends ? ['-q', '-n', '-t', '3', '-T', '1'] : ['-t', '10', '-T', '1']
  return start(t, ns, ({ script }) => ['busybox', 'udhcpc', '-f', '-i', 'eth0', '-s', script, ...how, ...args])
}

/** `dir` holds the leases that it remembers. */
export function dhclient(t: Scope, ns: Netns, dir: string): RealClient {
  const files = ['-lf', join(dir, 'leases'), '-pf', join(dir, 'pid'), '-cf', '/dev/null']
  // It empties the environment of its script.
  return start(t, ns, ({ script, out }) => {
    return ['dhclient', '-1', '-d', ...files, '-sf', script, '-e', `OUT=${out}`, 'eth0']
  })
}

function start(t: Scope, ns: Netns, command: (files: { script: string; out: string }) => string[]): RealClient {
  const dir = scratch(t, 'client')
  const [script, out] = [join(dir, 'script'), join(dir, 'told')]
  writeFileSync(script, SCRIPT)
  chmodSync(script, 0o755)
  const [name = '', ...args] = command({ script, out })
  const child = ns.spawn(name, args, { stdio: 'ignore', env: { ...process.env, OUT: out } })
  const exit = once(child, 'exit') as Promise<[number | null]>
  const told = (step: string) => {
    const file = `${out}.${step}`
    if (!existsSync(file)) return undefined
    const lines = readFileSync(file, 'utf8').split('\n')
    return Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    )
  }
  return {
    child,
    told,
    ended: async () => (await exit)[0],
    async reached(step) {
      const signal = AbortSignal.timeout(30_000)
      for (;;) {
        const got = told(step)
        if (got) return got
        await delay(10, undefined, { signal })
      }
    },
  }
}
