/** Clients as guests run them, each in the namespace of its guest. */
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
  /** Resolves with the router that it uses. */
  router(): Promise<string>
}

/** Its script leaves what it is told in files, and sets the address. */
const SCRIPT = `#!/bin/sh
step=\${1:-$reason}
address=\${ip:-$new_ip_address}
router=\${router:-$new_routers}
case "$step" in
  bound|renew|BOUND|RENEW|REBOOT|REBIND)
    ip address replace "$address/24" dev "$interface"
    [ -z "$router" ] || ip route replace default via "$router" dev "$interface" ;;
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

/** Ends with the lease. What it keeps on the machine it keeps in a mount namespace of its own. */
export function dhcpcd(t: Scope, ns: Netns): RealClient {
  const own = 'mount -t tmpfs none /run && mkdir /run/dhcpcd && mount -t tmpfs none /var/lib/dhcpcd'
  return start(t, ns, ({ script }) => {
    const client = `exec dhcpcd -B -4 -1 -t 30 --noarp --nodelay -f /dev/null -c ${script} eth0`
    return ['unshare', '--mount', 'sh', '-c', `${own} && ${client}`]
  })
}

const NETWORK = '[Match]\\nName=eth0\\n[Network]\\nDHCP=ipv4\\nLinkLocalAddressing=no\\nIPv6AcceptRA=no\\n'

/** Runs no script, so `told` and `reached` know nothing of it. /sys is read-only: there is no udev to wait for. */
export function networkd(t: Scope, ns: Netns): RealClient {
  const folders = 'mkdir -p /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp'
  const own = [
    'mount -t tmpfs none /run && mount -t tmpfs none /etc/systemd/network && mount -o remount,ro /sys',
    `${folders} && chown -R systemd-network:systemd-network /run/systemd/netif`,
    `printf '${NETWORK}' > /etc/systemd/network/all.network`,
  ].join(' && ')
  return start(t, ns, () => ['unshare', '--mount', 'sh', '-c', `${own} && exec /lib/systemd/systemd-networkd`])
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
    async router() {
      const signal = AbortSignal.timeout(30_000)
      for (;;) {
        const [route] = JSON.parse(ns.run('ip', '-j', 'route', 'show', 'default') || '[]') as { gateway?: string }[]
        if (route?.gateway !== undefined) return route.gateway
        await delay(10, undefined, { signal })
      }
    },
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
