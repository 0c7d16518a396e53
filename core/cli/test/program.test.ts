import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { placesFrom } from '../../environment.ts'
import { VERSION } from '../../version.ts'
import { buildProgram } from '../program.ts'
import { allVerbs } from '../table.ts'
import { columns, path, UsageError, type Verb } from '../verb.ts'
import { ctlFor, fakeControl, listenAt } from './control.ts'

const MAIN = join(import.meta.dirname, '../main.js')
const PLUGINS = join(import.meta.dirname, '../../../plugins')

const lamps: readonly Verb[] = [
  {
    path: 'lamp',
    summary: 'show the lamp',
    example: 'lamp',
    run: async ({ call, print }) => print(await call('GET', '/lamp'), 'the lamp'),
  },
  {
    path: 'lamp paint',
    summary: 'paint a lamp',
    example: 'lamp paint 1 red',
    arguments: [
      { name: 'id', summary: 'which' },
      { name: 'colour', summary: 'how', mayBeEmpty: true },
    ],
    options: [
      { flags: '--coats <n>', summary: 'how often', integer: true },
      { flags: '--dry-by <time>', summary: 'until when', required: true },
      { flags: '--matt', summary: 'no gloss' },
    ],
    async run({ call, argument, options, print, note }) {
      const body = { colour: argument('colour'), ...options }
      const answer = await call<{ id: number }>('PUT', path`/lamp/${argument('id')}`, body)
      print(answer, `painted ${answer.id}`)
      note('wet paint')
    },
  },
  {
    path: 'lamp switch',
    summary: 'switch a lamp',
    example: 'lamp switch on',
    arguments: [{ name: 'to', summary: 'on or off', choices: ['on', 'off'], optional: true }],
    run: async ({ argument, print }) => print({ to: argument('to') }, `now ${argument('to')}`),
  },
  {
    path: 'lamp read',
    summary: 'read a lamp from standard input',
    example: 'lamp read < lamp',
    async run({ stdin, print }) {
      const text = await stdin('lamp')
      if (text === '') throw new UsageError('standard input holds no lamp')
      print({ length: text.length }, String(text.length))
    },
  },
]

t.test('words, arguments and options of a line become one call', async (t) => {
  const { socket, asked } = await fakeControl(t, 200, { id: 7 })
  const ctl = ctlFor(lamps, socket)
  const painted = await ctl(['lamp', 'paint', 'a/b ?', '', '--coats', '-2', '--dry-by', 'noon', '--matt'])
  t.same(painted, { code: 0, out: 'painted 7\n', err: 'wet paint\n' })
  t.same(asked, ['PUT /lamp/a%2Fb%20%3F {"colour":"","coats":-2,"dry-by":"noon","matt":true}'])
  t.same(await ctl('lamp'), { code: 0, out: 'the lamp\n', err: '' }, 'a verb may begin others')
  t.equal(asked.at(-1), 'GET /lamp')
  t.equal((await ctl('lamp switch')).out, 'now \n', 'an optional argument may be left out')
  t.equal((await ctl('lamp switch on')).out, 'now on\n')
  t.equal((await ctl('lamp read', 'bulb')).out, '4\n')
})

t.test('--json prints the answer and nothing else, wherever it stands', async (t) => {
  const { socket } = await fakeControl(t, 200, { id: 7, name: 'x' })
  const ctl = ctlFor(lamps, socket)
  for (const line of ['--json lamp paint 1 red --dry-by noon', 'lamp paint 1 red --dry-by noon --json']) {
    const { code, out, err } = await ctl(line)
    t.same([code, JSON.parse(out), err], [0, { id: 7, name: 'x' }, ''])
  }
})

t.test('exit code 1: the agent refused, and its reason is on stderr', async (t) => {
  const { socket } = await fakeControl(t, 409, { error: 'lamp already exists' })
  const ctl = ctlFor(lamps, socket)
  t.same(await ctl('lamp'), { code: 1, out: '', err: 'stratumctl: lamp already exists\n' })
  t.same(await ctl('lamp --json'), { code: 1, out: '', err: '{"error":"lamp already exists"}\n' })
  const odd = await fakeControl(t, 500, [])
  t.match(await ctlFor(lamps, odd.socket)('lamp'), { code: 1, err: 'stratumctl: the agent answered 500\n' })
})

t.test('exit code 2: the line cannot be carried out, and no call is made', async (t) => {
  const { socket, asked } = await fakeControl(t, 200, {})
  const ctl = ctlFor(lamps, socket)
  const cases: [string | string[], RegExp][] = [
    ['lamp paint 1 --dry-by noon', /missing required argument 'colour'/],
    ['lamp paint 1 red', /required option '--dry-by <time>' not specified/],
    ['lamp paint 1 red blue --dry-by noon', /too many arguments/],
    ['lamp paint 1 red --dry-by noon --coats two', /must be a whole number/],
    ['lamp paint 1 red --dry-by noon --gloss', /unknown option '--gloss'/],
    [['lamp', 'paint', '', 'red', '--dry-by', 'noon'], /It is empty/],
    ['lamp switch dim', /Allowed choices are on, off/],
    ['lamp read', /standard input holds no lamp/],
    ['lamps', /unknown command 'lamps'/],
    [[], /Usage: stratumctl/],
  ]
  for (const [line, message] of cases) {
    const { code, out, err } = await ctl(line)
    t.same([code, out], [2, ''], String(line))
    t.match(err, message)
  }
  t.same(asked, [])
})

t.test('exit code 3: no answer, and the message says which socket and what to do', async (t) => {
  const dir = scratch(t, 'ctl')
  const absent = join(dir, 'control.sock')
  const reached = (socket: string, patienceMs?: number) => ctlFor(lamps, socket, patienceMs)('lamp')
  t.match(await reached(absent), {
    code: 3,
    out: '',
    err: `stratumctl: no answer at ${absent} (ENOENT): is stratumd running?\n`,
  })
  const stale = join(dir, 'stale.sock')
  writeFileSync(stale, '')
  t.match(await reached(stale), { code: 3, err: /stale\.sock \(E[A-Z]+\): is stratumd running\?/ })
  t.match(await reached(join(dir, 'x'.repeat(200))), { code: 3, err: /is stratumd running\?/ })

  const breaking = await listenAt(t, [], (request) => void request.socket.destroy())
  t.match(await reached(breaking.socket), { code: 3, err: /broke off .*may have been done; is stratumd running\?/ })
  const half = await listenAt(t, [], (_request, response) => {
    response.writeHead(200, { 'content-length': 10 })
    response.write('{', () => response.destroy())
  })
  t.match(await reached(half.socket), { code: 3, err: /broke off/ })
  const silent = await listenAt(t, [], () => {})
  t.match(await reached(silent.socket, 50), { code: 3, err: /broke off \(nothing came for 0\.05 s\)/ })
  const stranger = await listenAt(t, [], (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('hello')
  })
  t.match(await reached(stranger.socket), { code: 3, err: /does not speak JSON: is it stratumd\?/ })
})

t.test('an answer that is no JSON is handed on as text', async (t) => {
  const { socket } = await listenAt(t, [], (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' }).end('PEM')
  })
  t.same(await ctlFor(lamps, socket)('lamp --json'), { code: 0, out: '"PEM"\n', err: '' })
})

t.test('a defect is no refusal: it rejects', async (t) => {
  const broken: Verb = {
    path: 'broken',
    summary: '',
    example: 'broken',
    run: async ({ argument }) => void argument('no'),
  }
  await t.rejects(ctlFor([broken], '/nowhere')('broken'), /broken declares no argument no/)
})

t.test('two verbs cannot have one path', async (t) => {
  const outside = {
    call: async () => t.fail() as never,
    ask: async () => t.fail() as never,
    lines: async function* () {},
    stdin: async () => '',
    out: () => {},
    drained: async () => {},
    err: () => {},
    places: placesFrom({}),
    screen: () => undefined,
  }
  t.throws(() => buildProgram([...lamps, ...lamps], outside), /already have command/)
})

t.test('every verb of this build explains itself with an example', async (t) => {
  const verbs = await allVerbs()
  const { socket, asked } = await fakeControl(t, 200, {})
  const ctl = ctlFor(verbs, socket)
  for (const verb of verbs) {
    const { code, out } = await ctl([...verb.path.split(' '), '--help'])
    t.equal(code, 0)
    t.ok(out.includes(`Example:\n  stratumctl ${verb.path}`), verb.path)
    t.match(verb.path, /^[a-z][a-z-]*( [a-z0-9][a-z0-9-]*)*$/)
    t.ok(verb.summary.length > 10, `${verb.path}: ${verb.summary}`)
  }
  t.same(asked, [])
})

t.test('verbs of areas are found, and loading them loads nothing else of an area', async (t) => {
  const areas = readdirSync(PLUGINS).filter((name) => existsSync(join(PLUGINS, name, 'verbs.js')))
  t.ok(areas.length > 0)
  for (const name of areas) {
    // One area may spread its verbs over files.
    const files = ['verbs.js', ...readdirSync(join(PLUGINS, name)).filter((file) => file.endsWith('-verbs.js'))]
    for (const file of files) {
      const source = readFileSync(join(PLUGINS, name, file), 'utf8')
      const imports = [...source.matchAll(/^import .*from '([^']+)'|import\(/gm)].map(([, from = '']) => from)
      const others = imports.filter((from) => !files.includes(from.replace('./', '')))
      t.same(others, ['../../core/cli/verb.js'], `${name}/${file}`)
    }
  }
  const dir = scratch(t, 'verbs')
  const core = (await allVerbs(dir, { paths: {}, components: { schemas: {} } })).map((verb) => verb.path)
  t.same(
    core.filter((path) => /^(rules|status)\b/.test(path)),
    [],
  )
  t.ok(core.includes('service status'))
})

t.test('the binary: version, help, exit codes', async (t) => {
  const env = { ...process.env, STRATUM_RUN_DIR: scratch(t, 'ctl') }
  const ctl = (...args: string[]) => spawnSync(process.execPath, [MAIN, ...args], { env, encoding: 'utf8' })
  t.equal(execFileSync(process.execPath, [MAIN, '--version'], { encoding: 'utf8' }), `${VERSION}\n`)
  t.match(ctl('--help'), { status: 0, stdout: /service +rest, status/ })
  t.equal(ctl('no-such-thing').status, 2)
  t.equal(ctl('status').status, 3)
})

t.test('columns are as wide as their widest cell, and absent cells are a dash', async (t) => {
  t.equal(
    columns([
      ['A', 'BEE', 'C'],
      [100, undefined, ''],
      ['x', true, 'end'],
    ]),
    'A    BEE   C\n100  -     -\nx    true  end',
  )
  t.equal(columns([]), '')
})
