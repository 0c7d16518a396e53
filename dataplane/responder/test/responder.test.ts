/** The process and its driver, over a real socket. What it answers is tested where that is made (responder/). */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync, renameSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { endResponder } from '../../../test/responder.ts'
import { type Entry, passages } from '../../entry.ts'
import { GroundLost } from '../../plane.ts'
import { openResponder, type ResponderDriver } from '../driver.ts'
import { dhcpBinding, dnsListener, dnsRecord, dnsZone } from '../entries.ts'

const SOA = 'ns1.example.org. hostmaster.example.org. 2026010101 3600 600 604800 300'
const zone = dnsZone('dns', { name: 'example.org.', soa: SOA, soaTtl: 300 })
const record = (id: number) =>
  dnsRecord('dns', id, {
    zone: 'example.org.',
    name: `host${id}.example.org.`,
    type: 'A',
    ttl: 300,
    value: `192.0.2.${id % 250}`,
    subnet: '',
  })
const binding = dhcpBinding('dhcp', { net: 1, address: '10.0.0.9', mac: '02:ce:0a:00:00:09', hostname: '' })
const adding = (...entries: Entry[]) => passages([], entries)
const keys = (entries: readonly Entry[]) => entries.map(({ key }) => key).sort()
const alive = (pid: number) => existsSync(`/proc/${pid}`)

async function open(
  t: Scope,
  path: string,
  build?: string,
): Promise<{ driver: ResponderDriver; lost: Promise<void>; pid(): number }> {
  let tellLost = () => {}
  const lost = new Promise<void>((resolve) => {
    tellLost = resolve
  })
  const driver = await openResponder({ path, onProblem: () => {}, onLoss: tellLost, ...(build && { build }) })
  t.teardown(() => driver.close())
  const pid = () => {
    const running = driver.pid()
    if (running === undefined) throw new Error('it does not run')
    return running
  }
  return { driver, lost, pid }
}

/** The path of a socket whose process ends with the test. */
function socketFor(t: Scope): string {
  const path = join(scratch(t), 'responder.sock')
  t.teardown(() => endResponder(path))
  return path
}

t.test('it runs while there is something to answer, outlives its agent and is found again', async (t) => {
  const path = socketFor(t)
  const first = await open(t, path)
  t.same(await first.driver.observe(), [], 'holds nothing')
  t.equal(first.driver.pid(), undefined, 'and does not run for that')
  await first.driver.apply(adding(zone, record(1), binding))
  const pid = first.pid()
  t.equal(statSync(path).mode & 0o777, 0o600, 'only root may speak to it')
  await first.driver.close()
  t.ok(alive(pid), 'goes on')

  const second = await open(t, path)
  t.equal(second.pid(), pid, 'the same process')
  const all = [zone, record(1), binding]
  t.same(await second.driver.observe(all), all, 'equal to what shall be')
  t.same(keys(await second.driver.observe([zone])), keys(all), 'tells what it holds besides')
  await second.driver.apply(passages(all, [zone]))
  t.same(await second.driver.observe([]), [zone])
})

t.test('a batch of any size comes into force as one, and is listed in portions', async (t) => {
  const { driver } = await open(t, socketFor(t))
  const many = Array.from({ length: 2000 }, (_, n) => record(n))
  await driver.apply(adding(zone, ...many))
  t.same(keys(await driver.observe([])), keys([zone, ...many]))
  await driver.apply(passages([zone, ...many], [zone, record(7)]))
  t.same(keys(await driver.observe([])), keys([zone, record(7)]))
})

t.test('after a crash whoever opened it is told, and no change is built on what was lost', async (t) => {
  const { driver, lost, pid } = await open(t, socketFor(t))
  await driver.observe([])
  await driver.apply(adding(zone, record(1)))
  const former = pid()
  process.kill(former, 'SIGKILL')
  await lost
  await t.rejects(driver.apply(adding(record(2))), GroundLost)
  const shall = [zone, record(1)]
  t.same(await driver.observe(shall), [], 'what it held is gone')
  await driver.apply(adding(...shall), 'restore')
  t.not(pid(), former)
  await driver.apply(adding(record(2)))
  t.same(keys(await driver.observe([])), keys([zone, record(1), record(2)]))
  t.equal(driver.restarts(), 1)
})

t.test(
  'one that is killed while it is asked what it holds is seen to be gone, and changes are built on the next',
  async (t) => {
    const { driver, lost, pid } = await open(t, socketFor(t))
    const shall = [zone, record(1)]
    await driver.apply(adding(...shall))
    process.kill(pid(), 'SIGSTOP')
    const observed = driver.observe(shall)
    process.kill(pid(), 'SIGKILL')
    t.same(await observed, [])
    await lost
    await driver.apply(adding(...shall), 'restore')
    await driver.apply(adding(record(2)))
    t.same(keys(await driver.observe([])), keys([...shall, record(2)]))
  },
)

t.test('no change is built on a process that could not be started to hold the rest', async (t) => {
  const path = socketFor(t)
  const { driver, lost, pid } = await open(t, path)
  const shall = [zone, record(1)]
  await driver.apply(adding(...shall))
  process.kill(pid(), 'SIGKILL')
  await lost
  const [folder, away] = [dirname(path), `${dirname(path)}.away`]
  renameSync(folder, away)
  try {
    t.same(await driver.observe(shall), [])
    await t.rejects(driver.apply(adding(...shall), 'restore'), GroundLost)
  } finally {
    renameSync(away, folder)
  }
  t.match(driver.problem(), /^the responder cannot be started: /)
  await t.rejects(driver.apply(adding(binding)), GroundLost, 'it would answer nothing but that')
  t.same(await driver.observe(shall), [])
  await driver.apply(adding(...shall), 'restore')
  t.equal(driver.problem(), undefined)
  await driver.apply(adding(binding))
  t.same(keys(await driver.observe([])), keys([...shall, binding]))
})

/** A port of the loopback that nobody has. */
async function freePort(): Promise<number> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address()
  socket.close()
  await once(socket, 'close')
  return port
}

/** Whether a query is answered within a second; any code will do. */
async function answers(port: number): Promise<boolean> {
  const socket = createSocket('udp4')
  // One question: host1.example.org A.
  const query = Buffer.from('00010000000100000000000005686f737431076578616d706c65036f72670000010001', 'hex')
  const heard = new Promise<boolean>((resolve) => {
    socket.once('message', () => resolve(true)).once('error', () => resolve(false))
    setTimeout(() => resolve(false), 1000)
  })
  socket.connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.send(query)
  const result = await heard
  socket.close()
  return result
}

t.test('an agent of another build brings a process of its own, and the former answers until then', async (t) => {
  const path = socketFor(t)
  const all = [zone, record(1), dnsListener('dns', { address: '127.0.0.1', port: await freePort() })]
  const port = (all[2] as { port: number }).port
  const first = await open(t, path)
  await first.driver.apply(adding(...all))
  const former = first.pid()
  await first.driver.close()
  const second = await open(t, path, 'another')
  t.equal(second.driver.pid(), undefined, 'is not taken over')
  t.same(await second.driver.observe(all), [])
  t.ok(await answers(port), 'and goes on')
  await second.driver.apply(adding(...all), 'restore')
  t.not(second.pid(), former)
  t.ok(await answers(port), 'the new one answers')
  while (alive(former)) await new Promise((resolve) => setTimeout(resolve, 10))
})

t.test('one that is killed again and again is started anew after five seconds at most', async (t) => {
  const pauses: number[] = []
  let next = () => {}
  const onProblem = (error: unknown) => {
    const told = /ended by itself; it is started anew (?:in (\d+) ms|at once)/.exec((error as Error).message)
    if (told) pauses.push(Number(told[1] ?? 0))
  }
  const driver = await openResponder({ path: socketFor(t), onProblem, onLoss: () => next() })
  t.teardown(() => driver.close())
  await driver.observe([])
  await driver.apply(adding(zone))
  for (let kills = 0; kills < 6; kills++) {
    const lost = new Promise<void>((resolve) => {
      next = resolve
    })
    process.kill(driver.pid() ?? 0, 'SIGKILL')
    await lost
    t.same(await driver.observe([zone]), [])
    await driver.apply(adding(zone), 'restore')
  }
  t.same(pauses, [0, 1000, 2000, 4000, 5000, 5000])
})

t.test(
  'one that was stopped is ended and replaced within seconds, however often; no change is built on it',
  async (t) => {
    const path = socketFor(t)
    const problems: string[] = []
    const lost = { times: 0 }
    const driver = await openResponder({
      path,
      onProblem: (error) => void problems.push(String(error)),
      onLoss: () => void lost.times++,
    })
    t.teardown(() => driver.close())
    const all = [zone, record(1)]
    await driver.apply(adding(...all))
    for (const times of [1, 2]) {
      const stopped = driver.pid() ?? 0
      process.kill(stopped, 'SIGSTOP')
      const since = performance.now()
      await t.rejects(driver.apply(adding(record(2))), GroundLost)
      t.ok(performance.now() - since < 7500, 'not after half a minute, nor when a change gives up waiting')
      t.same(await driver.observe(all), [])
      await driver.apply(adding(...all), 'restore')
      t.not(driver.pid(), stopped)
      t.match(problems.join('\n'), new RegExp(`process ${stopped} was ended: it did not answer .*SIGSTOP`))
      while (alive(stopped)) await new Promise((resolve) => setTimeout(resolve, 10))
      while (lost.times < times) await new Promise((resolve) => setTimeout(resolve, 10))
    }
  },
)

t.test('one that an agent finds stopped makes room for another, which gets its addresses', async (t) => {
  const path = socketFor(t)
  const all = [zone, record(1), dnsListener('dns', { address: '127.0.0.1', port: await freePort() })]
  const first = await open(t, path)
  await first.driver.apply(adding(...all))
  const stopped = first.pid()
  await first.driver.close()
  process.kill(stopped, 'SIGSTOP')
  const second = await open(t, path)
  t.equal(second.driver.pid(), undefined)
  await second.driver.apply(adding(...all), 'change')
  t.notOk(alive(stopped))
  t.ok(await answers((all[2] as { port: number }).port))
})

t.test('one that is told much goes on when its agent was stopped meanwhile', async (t) => {
  const { driver, pid } = await open(t, socketFor(t))
  await driver.apply(adding(zone))
  const former = pid()
  // Nothing of this process runs for so long, as if it had been stopped.
  await new Promise((resolve) => setTimeout(resolve, 1100))
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000)
  await new Promise((resolve) => setTimeout(resolve, 1000))
  t.equal(pid(), former)
})
