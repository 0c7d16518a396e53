/** A counted stream through the data plane of a node: every datagram that is forwarded there is answered by the far end. */
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { ClusterNode } from '../cluster.ts'
import { succeeded } from '../cluster.ts'
import { netns, type Scope, veth } from '../netns.ts'

const EVERY_MS = 10
/** A machine under load may answer late; what has not come by then never will. */
const WAIT_MS = 2000

const ECHO = `const s = require('node:dgram').createSocket('udp4'); s.on('message', (m, r) => s.send(m, r.port, r.address))
s.bind(9000, '10.77.2.2', () => console.log('listening'))`
const PROBE = `const s = require('node:dgram').createSocket('udp4'); let sent = 0, open = new Map(), answered = 0
s.on('message', (m) => { if (open.delete(Number(m))) answered++ })
s.bind(9001, '10.77.1.2', () => { console.log('probing'); setInterval(() => { open.set(sent, 1); s.send(String(sent++), 9000, '10.77.2.2') }, ${EVERY_MS}) })
process.on('SIGUSR2', () => { const asked = [...open.keys()], until = sent; setTimeout(() => {
  console.log(JSON.stringify({ sent: until, lost: asked.filter((n) => open.has(n)).length })) }, ${WAIT_MS}) })`

export interface Traffic {
  /** Of all until now; what is on its way is waited for. */
  count(): Promise<{ sent: number; lost: number }>
}

/** Through rules of the node: a default deny, and one that accepts it. */
export async function traffic(t: Scope, { ns, agent }: ClusterNode): Promise<Traffic> {
  const [client, server] = [netns(t, 'c'), netns(t, 's')]
  veth(t, { ns: client, name: 'eth0', addr: '10.77.1.2/24' }, { ns, name: 'left', addr: '10.77.1.1/24' })
  veth(t, { ns: server, name: 'eth0', addr: '10.77.2.2/24' }, { ns, name: 'right', addr: '10.77.2.1/24' })
  ns.run('sysctl', '-qw', 'net.ipv4.ip_forward=1')
  client.run('ip', 'route', 'add', 'default', 'via', '10.77.1.1')
  server.run('ip', 'route', 'add', 'default', 'via', '10.77.2.1')
  client.run('ping', '-n', '-c', '1', '-w', '20', '10.77.2.2')
  const rule = { action: 'accept', protocol: 'udp', dest_ip: '10.77.2.2', dest_port: 9000 }
  succeeded(await agent.call('POST', '/api/v1/rules', rule))
  succeeded(await agent.call('PUT', '/api/v1/rules/default', { default_action: 'deny' }))
  const echo = lines(server.spawn(process.execPath, ['-e', ECHO]))
  await echo()
  const child = client.spawn(process.execPath, ['-e', PROBE])
  const next = lines(child)
  await next()
  return {
    async count() {
      child.kill('SIGUSR2')
      return JSON.parse(await next())
    },
  }
}

function lines({ stdout }: ChildProcess): () => Promise<string> {
  if (stdout === null) throw new TypeError('its output must be piped')
  const iterator = createInterface({ input: stdout })[Symbol.asyncIterator]()
  return async () => {
    const { value, done } = await iterator.next()
    if (done) throw new Error('ended without a word')
    return value
  }
}
