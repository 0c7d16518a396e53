/** `stratumctl top`: what it shows, how it shares the room, and what a terminal gets. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { buildAgent, scratch } from '../../../test/build.ts'
import { listenControl } from '../../transport/listener.ts'
import { Refused } from '../client.ts'
import type { Screen, Wake } from '../screen.ts'
import { allPanes, allVerbs } from '../table.ts'
import { devicesIn } from '../top/devices.ts'
import { picture, shared } from '../top/picture.ts'
import { bitRate, type Pane } from '../verb.ts'
import { topVerb } from '../verbs/top.ts'
import { ctlFor, fakeControl } from './control.ts'

const MAIN = join(import.meta.dirname, '../main.js')

async function node(t: Test) {
  const socket = join(scratch(t, 'ctl'), 'control.sock')
  const built = await buildAgent(t)
  const control = await listenControl(built.agent.app.routing.bind(built.agent.app), socket)
  t.teardown(() => control.close(0))
  const vip = { id: 'web', frontend_ip: '192.0.2.10', frontend_port: 80, algorithm: 'maglev' }
  t.equal((await built.call('POST', '/api/v1/lb', vip)).status, 201)
  const limit = { id: 'a', target_mac: '02:00:00:00:00:01', rate_bps: 5_000_000 }
  t.equal((await built.call('POST', '/api/v1/bandwidth', limit)).status, 200)
  return { socket, ctl: ctlFor(await allVerbs(), socket), ...built }
}
t.test('--once shows flows, ports, limits and VIPs', async (t) => {
  t.same(
    (await allPanes()).map(({ title }) => title),
    ['Flows', 'Ports', 'Limits', 'VIPs'],
  )
  const { ctl } = await node(t)
  const { code, out, err } = await ctl('top --once --interval 1')
  t.same([code, err], [0, ''])
  t.match(out, /^stratumd [\d.]+ {2}running {2}up /)
  t.match(out, /\nLimits \(1 limits, 0 quotas\)\nMAC .*\n02:00:00:00:00:01 +5\.0 Mbit\/s +both/)
  t.match(out, /\nVIPs \(1\)\nVIP .*\nweb +192\.0\.2\.10:80\/tcp +maglev +0 of 0 +0\n/)
  const { panes } = JSON.parse((await ctl('top --interval 1 --json')).out)
  t.same(
    panes.map(({ title }: { title: string }) => title),
    ['Flows', 'Ports', 'Limits', 'VIPs'],
  )
  t.match(await ctl('top --interval 0'), { code: 2, err: /from 1s to 1h/ })
})

t.test('rates are those between two looks, a refusal shows in its place, and the screen is given back', async (t) => {
  const { socket } = await fakeControl(t, 200, { status: 'running', version: '1', uptime: '1m' })
  let count = 0
  const pane: Pane = {
    title: 'Lamps',
    order: 1,
    async read({ rate }) {
      count += 1000
      const measured = rate('a', count)
      return { head: ['LAMP', 'RATE'], rows: [['a\u001b[2J', measured === undefined ? 'none' : 'some']] }
    },
  }
  const off: Pane = {
    title: 'Off',
    order: 2,
    read: async () => {
      throw new Refused(503, { error: 'not available' })
    },
  }
  const drawn: string[][] = []
  const wakes: Wake[] = ['time', 'resize', 'quit']
  let closed = 0
  const screen: Screen = {
    columns: 20,
    rows: 10,
    draw: (lines) => void drawn.push([...lines]),
    wait: async () => wakes.shift() ?? 'quit',
    close: () => void closed++,
  }
  const ctl = ctlFor([topVerb(async () => [pane, off])], socket, undefined, { screen: () => screen })
  t.same(await ctl('top'), { code: 0, out: '', err: '' })
  t.equal(drawn.length, 3)
  t.match(drawn[0]?.join('\n'), /a\?\[2J +none/)
  t.match(drawn[1]?.join('\n'), /a\?\[2J +some/)
  t.match(drawn[1]?.at(-1), 'Off: not available')
  t.equal(closed, 1)
  t.ok(
    drawn.flat().every((line) => line.length <= 20),
    'nothing is wider than the terminal',
  )
  const away = ctlFor([topVerb(async () => [pane])], '/nowhere', undefined, { screen: () => screen })
  t.match(await away('top'), { code: 3 })
  t.equal(closed, 2, 'also when the agent is away')
})

t.test('a terminal shows it and q ends it', async (t) => {
  const { socket } = await node(t)
  // Of util-linux: runs a program on a terminal of its own.
  const child = spawn('script', ['-qec', `stty cols 100 rows 30; ${process.execPath} ${MAIN} top`, '/dev/null'], {
    env: { PATH: process.env.PATH, STRATUM_RUN_DIR: dirname(socket), TERM: 'xterm', SHELL: '/bin/sh' },
  })
  let text = ''
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`ended by itself: ${text}`)))
    child.stdout.setEncoding('utf8').on('data', (piece) => {
      text += piece
      if (text.includes('VIPs (1)')) resolve()
    })
  })
  const over = once(child, 'exit')
  child.stdin.write('q')
  const [code] = await over
  t.equal(code, 0)
  t.ok(text.startsWith('\u001b[?1049h\u001b[?25l'), 'on a screen of its own, without a cursor')
  t.ok(text.trimEnd().endsWith('\u001b[?25h\u001b[?1049l'), 'and back')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what moves the cursor
  const lines = text.split(/\r\n|\u001b\[H/).map((line) => line.replace(/\u001b\[[?0-9]*[A-Za-z]/g, ''))
  t.ok(lines.every((line) => line.length <= 100))
})

t.test('the room is shared fairly', async (t) => {
  t.same(shared([1, 100, 100], 21), [1, 10, 10])
  t.same(shared([3, 2], 10), [3, 2])
  t.same(shared([0, 5], 3), [0, 3])
  t.same(shared([9, 9], 1), [1, 0])
  const rows = Array.from({ length: 50 }, (_, at) => [at])
  const lines = picture(
    ['head'],
    [
      { title: 'A', rows: { head: ['N'], rows } },
      { title: 'B', rows: 'off' },
    ],
    80,
    24,
  )
  t.ok(lines.length <= 24)
  t.match(lines.join('\n'), /^head\n\nA \(33 more below\)\nN\n0\n1\n/)
  t.match(lines.at(-1), 'B: off')
})

t.test('counters of devices, and rates in bits', async (t) => {
  const text = 'Inter-| Receive\n face |bytes\n  lo: 1 2 0 0 0 0 0 0 9 0\neth0:12345678901 1 0 0 0 0 0 0 7 0\n'
  t.same(Object.fromEntries(devicesIn(text)), {
    lo: { received: 1, sent: 9 },
    eth0: { received: 12345678901, sent: 7 },
  })
  t.same([0, 124, 125, 1.25e6, 1.25e9].map(bitRate), [
    '0 bit/s',
    '992 bit/s',
    '1.0 kbit/s',
    '10.0 Mbit/s',
    '10.0 Gbit/s',
  ])
})

t.test('flows by what they carry now, ports by their devices, limits by their quotas', async (t) => {
  const flow = {
    protocol: 'tcp',
    src_ip: '10.0.0.1',
    src_port: 40000,
    dst_ip: '2001:db8::1',
    dst_port: 443,
    bytes_out: 0,
  }
  const flows = [
    { ...flow, id: 'quiet', bytes_in: 9_000_000 },
    { ...flow, id: 'loud', dst_ip: '10.0.0.2', bytes_in: 1000 },
  ]
  const answers: Record<string, unknown> = {
    '/api/v1/flows?state=active&limit=500': { flows },
    '/control/v1/l2/ports': {
      ports: [
        { name: 'tap0', role: 'workload', net: 0 },
        { name: 'tap1', role: 'workload', net: 7 },
      ],
    },
    '/api/v1/bandwidth': { limits: [] },
    '/api/v1/bandwidth/quotas': {
      quotas: [{ mac: '02:00:00:00:00:09', used_bytes: 50, monthly_limit_bytes: 100, status: 'ok' }],
    },
  }
  const rates: Record<string, number> = {
    'loud in': 125_000,
    'loud out': 0,
    'quiet in': 0,
    'quiet out': 0,
    'tap1 up': 1250,
  }
  const look = {
    call: async (_method: string, path: string) => answers[path] as never,
    rate: (key: string) => rates[key],
    devices: new Map([['tap1', { received: 1, sent: 2 }]]),
  }
  const [ofFlows, ofPorts, ofLimits] = await allPanes()
  t.same((await ofFlows?.read(look))?.rows, [
    ['tcp', '10.0.0.1:40000', '10.0.0.2:443', '1.0 Mbit/s', '0 bit/s', 1000],
    ['tcp', '10.0.0.1:40000', '[2001:db8::1]:443', '0 bit/s', '0 bit/s', 9_000_000],
  ])
  t.same((await ofPorts?.read(look))?.rows, [
    ['tap1', 'workload', 7, '10.0 kbit/s', ''],
    ['tap0', 'workload', 'open', '', ''],
  ])
  t.same((await ofLimits?.read(look))?.rows, [
    ['02:00:00:00:00:09', undefined, undefined, undefined, '', '50.0 %', 'ok'],
  ])
})
