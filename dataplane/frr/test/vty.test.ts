/** Who shares a connection, against a daemon that is played: it refuses `show` in the config node, as FRR's do. */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { openFollower } from '../follow.ts'
import { openReadings } from '../readings.ts'
import { openVty } from '../vty.ts'

type Play = (socket: Socket, command: string, inConfig: boolean) => void

const answer = (socket: Socket, text: string, ok = true) => socket.write(`${text}\0\0\0${ok ? '\0' : '\x01'}`)
const obeys: Play = (socket, command, inConfig) =>
  inConfig && command.startsWith('show ') ? answer(socket, '% Unknown command', false) : answer(socket, '{}')

/** Resolves to a directory with the socket of a daemon. */
async function daemon(t: Scope, play: Play = obeys): Promise<string> {
  const dir = scratch(t)
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    let [rest, inConfig] = ['', false]
    open.add(socket)
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      const commands = (rest + chunk).split('\0')
      rest = commands.pop() ?? ''
      for (const command of commands) {
        if (command === 'configure terminal') inConfig = true
        if (command === 'end') inConfig = false
        play(socket, command, inConfig)
      }
    })
  }).listen(join(dir, 'bgpd.vty'))
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return dir
}

/** Of nobody. */
const follower = openFollower('', () => {})

t.test('what is read meanwhile is not said in the config node, however long the configuration', async (t) => {
  const dir = await daemon(t)
  const vty = await openVty(join(dir, 'bgpd.vty'), 60_000)
  const lines = Array.from({ length: 1000 }, (_, at) => `line ${at}`)
  const configured = vty.run(['configure terminal', ...lines, 'end'])
  const { neighbors } = openReadings({
    places: { binDir: '', runDir: dir },
    daemon: (name) => (name === 'bgpd' ? vty : undefined),
    pids: () => ({}),
    follower,
  })
  t.same(await neighbors(), [])
  t.ok((await configured).every(({ ok }) => ok))
  vty.close()
})

t.test('one that runs and does not answer has not said that there is nothing', async (t) => {
  const dir = await daemon(t, (socket, command) => answer(socket, '% no', !command.startsWith('show ')))
  const vty = await openVty(join(dir, 'bgpd.vty'), 60_000)
  const places = { binDir: '', runDir: dir }
  const told = openReadings({ places, daemon: () => vty, pids: () => ({}), follower })
  await t.rejects(told.neighbors(), /(bgpd|bfdd) does not answer/)
  await t.rejects(told.prefixes(), /bgpd does not answer/)
  vty.close()
  await t.rejects(told.neighbors(), /(bgpd|bfdd) does not answer/)
  t.same(
    await openReadings({ places, daemon: () => undefined, pids: () => ({}), follower }).neighbors(),
    [],
    'none runs',
  )
})

t.test('a connection that never was open is not lost', async (t) => {
  const dir = await daemon(t, () => {})
  let lost = 0
  await t.rejects(
    openVty(join(dir, 'bgpd.vty'), 100, () => lost++),
    /ended/,
  )
  t.equal(lost, 0)
})

t.test('a connection that ends by itself is lost once', async (t) => {
  const dir = await daemon(t, (socket, command) => (command === 'enable' ? answer(socket, '') : socket.destroy()))
  const lost = new Promise<void>((resolve, reject) => {
    openVty(join(dir, 'bgpd.vty'), 60_000, resolve).then((vty) => t.rejects(vty.run(['show version'])), reject)
  })
  await lost
})

t.test('one listing at a time; one that is left makes room, and one that bgpd leaves ends', async (t) => {
  const listings: Socket[] = []
  const line = '"10.0.0.0/8": [{"aspath":{},"peer":{"peerId":"10.7.0.2"}}]\n'
  const dir = await daemon(t, (socket, command) => {
    if (command.includes('detail')) {
      listings.push(socket)
      socket.write(line)
    } else answer(socket, command.startsWith('show bgp vrf') ? '{\n"default":{}}' : '')
  })
  const vty = await openVty(join(dir, 'bgpd.vty'), 60_000)
  const { routes } = openReadings({
    places: { binDir: '', runDir: dir },
    daemon: () => vty,
    pids: () => ({}),
    follower,
  })
  const [first, second] = [routes(4)[Symbol.asyncIterator](), routes(4)[Symbol.asyncIterator]()]
  const began = first.next()
  const then = second.next()
  t.match(await began, { value: [{ prefix: '10.0.0.0/8' }] })
  // Another question is answered meanwhile, so a second listing would have begun.
  await vty.run(['show version'])
  t.equal(listings.length, 1)
  await first.return?.()
  t.match(await then, { value: [{ prefix: '10.0.0.0/8' }] })
  t.equal(listings.length, 2)
  listings[1]?.destroy()
  await t.rejects(Promise.resolve(second.next()))
  vty.close()
})
