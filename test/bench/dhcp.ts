/**
 * What the DHCP server costs: whole exchanges over a cable, each by another MAC, with the client in a process of its own; and
 * how soon a MAC is answered that has just been bound.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { openDhcp } from '../../responder/dhcp/server.ts'
import { binding, network } from '../../responder/dhcp/test/client.ts'
import type { ClientTask } from './dhcp-client.ts'
import { quantile, type Report } from './figure.ts'

const CLIENTS = 20_000
/** Exchanges under way at a time. */
const WINDOW = 64
const REBINDS = 200
const link = 'dhcp0'

export const macOf = (n: number): string =>
  `02:00:00:${n
    .toString(16)
    .padStart(6, '0')
    .replace(/..(?!$)/g, '$&:')}`
const addressOf = (n: number): string => `10.1.${(n + 2) >> 8}.${(n + 2) & 255}`

export async function dhcp(report: Report): Promise<void> {
  const run = (command: string) => execFileSync('sh', ['-ec', command], { stdio: ['ignore', 'ignore', 'inherit'] })
  run(`ip link add ${link} type veth peer name client0
    ip link set client0 up; ip link set ${link} up; ip address add 10.1.0.1/16 dev ${link}
    nft add table inet stamps; nft 'add chain inet stamps stamped { type filter hook prerouting priority raw; }'
    nft add rule inet stamps stamped iifname ${link} meta mark set 0x53000001`)
  const server = openDhcp({ onLease: () => {} })
  const child = fork(new URL('./dhcp-client.js', import.meta.url))
  try {
    await once(child, 'message')
    const entries = Array.from({ length: CLIENTS }, (_, n) => ({
      after: binding({ address: addressOf(n), mac: macOf(n) }),
    }))
    const rendered = process.cpuUsage()
    const served = { after: network({ link, cidr: '10.1.0.0/16', gateway: '10.1.0.1' }) }
    server.apply([served, ...entries])
    await server.applyListeners([served])
    const taken = process.cpuUsage(rendered)
    report({ figure: `CPU to take over ${CLIENTS} bindings`, value: (taken.user + taken.system) / 1000, unit: 'ms' })

    await ask(child, { first: 0, count: 1000, window: WINDOW })
    const [cpu, since] = [process.cpuUsage(), performance.now()]
    const { done } = await ask(child, { first: 1000, count: CLIENTS - 1000, window: WINDOW })
    const [{ user, system }, took] = [process.cpuUsage(cpu), performance.now() - since]
    report({
      figure: 'whole exchanges',
      value: (done / took) * 1000,
      unit: '/s',
      better: 'higher',
      goal: 1000,
      note: `${done} of ${CLIENTS - 1000}, the client on the same machine`,
    })
    report({
      figure: 'CPU of the server',
      value: (user + system) / done,
      unit: 'µs',
      note: 'an exchange: 2 requests, 2 answers',
    })

    const times: number[] = []
    let before = entries[0]?.after
    for (let n = 0; n < REBINDS; n++) {
      const after = binding({ address: addressOf(0), mac: macOf(CLIENTS + n) })
      const at = performance.now()
      server.apply([{ ...(before && { before }), after }])
      await ask(child, { first: CLIENTS + n, count: 1, window: 1 })
      times.push(performance.now() - at)
      before = after
    }
    report({
      figure: 'rebound and leased, p50',
      value: quantile(times, 0.5),
      unit: 'ms',
      note: 'from apply to the ACK of the new MAC',
    })
    report({ figure: 'rebound and leased, p99', value: quantile(times, 0.99), unit: 'ms', goal: 10 })
  } finally {
    child.kill()
    await server.close()
  }
}

async function ask(child: ChildProcess, task: ClientTask): Promise<{ done: number }> {
  child.send(task)
  const [answer] = await once(child, 'message')
  return answer as { done: number }
}
