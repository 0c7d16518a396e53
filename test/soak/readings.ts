/** What the node does to names and packets, asked from outside it and compared with the model, for a sample. */
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Netns } from '../netns.ts'
import type { Fields, Model } from './model.ts'
import { NODE, type SoakNode, TCP_PORT, UNRULED_PORT, VIP } from './node.ts'

const SAMPLE = 6
const PATIENCE_MS = 10_000
/** Ports that something on the node has, or that forwards of the soak take. */
const TAKEN = (port: number): boolean => port < 10_000 || (port >= 20_000 && port < 21_000)

export class Readings {
  readonly #node: SoakNode
  /** Names that were there when it was last looked at, and of what type. */
  #names = new Map<string, string>()
  #turn = 0

  constructor(node: SoakNode) {
    this.#node = node
  }

  /** Whatever differs, in words. */
  async differences(model: Model): Promise<string[]> {
    this.#turn++
    return [
      ...this.#answers(model),
      ...(await this.#verdicts(model)),
      ...this.#limits(model),
      ...this.#connections(model),
    ]
  }

  #answers(model: Model): string[] {
    const ask = (name: string, type: string) =>
      this.#node.ns.run('dig', '+short', '+tries=2', '+time=5', `@${NODE}`, name, type).trim().replaceAll('"', '')
    const records = [...model.of('records').values()].map(({ fields }) => fields)
    const wrong = this.#sample(records).flatMap(({ name, type, value }) => {
      const told = ask(String(name), String(type))
      return told === value ? [] : [`dig ${name}: ${told || 'nothing'} instead of ${value}`]
    })
    const names = new Map(records.map(({ name, type }) => [String(name), String(type)]))
    const gone = this.#sample([...this.#names].filter(([name]) => !names.has(name)))
    this.#names = names
    return [
      ...wrong,
      ...gone.flatMap(([name, type]) => (ask(name, type) === '' ? [] : [`dig ${name}: still answered, it is deleted`])),
    ]
  }

  /** A datagram each to ports that one rule decides alone, and to one that none does. */
  async #verdicts(model: Model): Promise<string[]> {
    const rules = [...model.of('rules').values()]
      .map(({ fields }) => fields)
      .filter(({ protocol }) => protocol === 'udp')
    const alone = rules.filter(
      ({ source_ip, dest_port }) =>
        !TAKEN(Number(dest_port)) &&
        /^192\.0\.2\.\d+$/.test(String(source_ip)) &&
        rules.filter((it) => it.dest_port === dest_port).length === 1,
    )
    const free = [61_001, 61_002, 61_003].find((port) => rules.every(({ dest_port }) => dest_port !== port))
    const fallback: Fields = {
      action: model.of('default').get('own')?.fields.action === 'allow' ? 'accept' : 'drop',
      source_ip: '192.0.2.77',
      dest_port: free,
    }
    const probes = [...this.#sample(alone), fallback].map(({ action, source_ip, dest_port }) => ({
      passes: action === 'accept',
      from: String(source_ip),
      port: Number(dest_port),
    }))
    const came = await arrivals(this.#node.ns, this.#node.client, probes)
    return probes
      .filter(({ passes, port }) => came.has(port) !== passes)
      .map(
        ({ passes, from, port }) =>
          `a datagram from ${from} to port ${port} ${passes ? 'did not come' : 'came, it is forbidden'}`,
      )
  }

  /** A class with the rate of each limit that is alone for its machine. */
  #limits(model: Model): string[] {
    const limits = [...model.of('limits').values()].map(({ fields }) => fields)
    const members = model.names('members')
    const alone = limits.filter(
      ({ target_mac, pool_id }) =>
        !pool_id &&
        limits.filter((it) => it.target_mac === target_mac).length === 1 &&
        !members.some((it) => it.endsWith(`/${target_mac}`)),
    )
    if (alone.length === 0) return []
    const read =
      "for dev in $(tc qdisc show | sed -n 's/^qdisc htb .* dev \\([^ ]*\\) .*/\\1/p' | sort -u | grep -v foreign0); do tc class show dev $dev; done"
    const classes = this.#node.ns.run('sh', '-c', read)
    const ceils = new Set(Array.from(classes.matchAll(/ceil (\d+)Mbit/g), ([, mbit]) => Number(mbit) * 1_000_000))
    return alone
      .filter(({ rate_bps }) => !ceils.has(Number(rate_bps)))
      .map(({ target_mac, rate_bps }) => `no HTB class has the rate of ${target_mac}, ${rate_bps} bit/s`)
  }

  /** Where frames of br-work meet the IP hooks, the default deny drops what no rule admits (plugins/lb/README.md). */
  #connections(model: Model): string[] {
    const denies = model.of('default').get('own')?.fields.action === 'deny'
    const meets = this.#node.ns.run('sysctl', '-e', '-n', 'net.bridge.bridge-nf-call-iptables').trim() === '1'
    return [...this.#connection(TCP_PORT), ...(denies && meets ? [] : this.#connection(UNRULED_PORT))]
  }

  #connection(port: number): string[] {
    try {
      const told = this.#node.client.run(process.execPath, '-e', CONNECTION, VIP, String(port))
      return told.trim() === 'served' ? [] : [`${VIP}:${port} answers ${told}`]
    } catch (error) {
      return [`no connection to ${VIP}:${port}: ${error}`]
    }
  }

  /** Others each time, the same for the same items. */
  #sample<T>(list: readonly T[]): T[] {
    const first = (this.#turn * SAMPLE) % Math.max(1, list.length)
    return [...list.slice(first), ...list.slice(0, first)].slice(0, SAMPLE)
  }
}

const CONNECTION = `
const socket = require('node:net').connect({ host: process.argv[1], port: Number(process.argv[2]), timeout: ${PATIENCE_MS} })
socket.on('timeout', () => { console.error('nothing came'); process.exit(1) })
socket.on('data', (bytes) => { console.log(String(bytes)); socket.destroy() })
`
const RECEIVER = `
for (const port of JSON.parse(process.argv[1])) {
  require('node:dgram').createSocket('udp4').on('message', () => console.log(port)).bind(port)
}
setTimeout(() => console.log('listening'), 0)
`
const SENDER = `
for (const { from, port } of JSON.parse(process.argv[2])) {
  const socket = require('node:dgram').createSocket('udp4')
  socket.bind(0, from, () => socket.send('x', port, process.argv[1], () => socket.close()))
}
`

interface Probe {
  passes: boolean
  from: string
  port: number
}

/** Ports at which a datagram came; waits for those that shall come. */
async function arrivals(node: Netns, client: Netns, probes: readonly Probe[]): Promise<Set<number>> {
  client.run('ip', 'route', 'replace', 'local', '192.0.2.0/24', 'dev', 'lo')
  const came = new Set<number>()
  const receiver = node.spawn(process.execPath, ['-e', RECEIVER, JSON.stringify(probes.map(({ port }) => port))])
  if (receiver.stdout === null) throw new TypeError('no stdout')
  const lines = createInterface({ input: receiver.stdout })
  await once(lines, 'line')
  lines.on('line', (line) => came.add(Number(line)))
  client.run(process.execPath, '-e', SENDER, NODE, JSON.stringify(probes))
  const deadline = Date.now() + PATIENCE_MS
  const missing = () => probes.some(({ passes, port }) => passes && !came.has(port))
  do await new Promise((wait) => setTimeout(wait, 30))
  while (missing() && Date.now() < deadline)
  const gone = once(receiver, 'exit')
  receiver.kill('SIGKILL')
  await gone
  return came
}
