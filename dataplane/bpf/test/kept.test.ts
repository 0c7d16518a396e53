/** Programs that one agent leaves to the next: taken over when they are what it would load, and loaded in any doubt. */
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { chance } from '../../../test/chance.ts'
import { requireRoot, type Scope } from '../../../test/netns.ts'
import { SEED } from '../../../test/seed.ts'
import { KEPT, layoutDir } from '../bpffs.ts'
import { u32, u64 } from '../codec.ts'
import { digestOf, type Origin, pinName, proven } from '../kept.ts'
import { checked, libbpf } from '../libbpf.ts'
import { createMap, MAP_TYPE } from '../map.ts'
import { type BpfObject, openObject } from '../object.ts'
import { runProgram } from '../test_run.ts'
import { bpffs, counter, frame, objectPath } from './support.ts'

const KILLS = Number(process.env.KILLS ?? 20)
const PROGRAMS = [
  'count_first',
  'count_second',
  'count_xdp',
  'count_xdp_second',
  'judge',
  'read_table',
  'tell',
  'rewrite',
]

const map = { type: 2, id: 7, name: 'm', keySize: 4, valueSize: 8, maxEntries: 1, flags: 0 }
const origin: Origin = {
  code: Buffer.from('code'),
  rodata: { step: Buffer.from([1]) },
  maps: new Map<string, typeof map | number | undefined>([
    ['m', map],
    ['free', 3],
  ]),
  loaders: ['6.1'],
}

t.test('whatever makes another program makes another digest', async (t) => {
  const others: Origin[] = [
    { ...origin, code: Buffer.from('codes') },
    { ...origin, rodata: { step: Buffer.from([2]) } },
    { ...origin, rodata: {} },
    { ...origin, maps: new Map([...origin.maps, ['m', { ...map, id: 8 }]]) },
    { ...origin, maps: new Map([...origin.maps, ['free', 4]]) },
    { ...origin, loaders: ['6.2'] },
  ]
  t.equal(new Set([origin, ...others].map(digestOf)).size, 7)
  t.equal(digestOf({ ...origin, maps: new Map([...origin.maps].reverse()) }), digestOf(origin), 'not the order')
})

t.test('programs are proven by their pins, all or none', async (t) => {
  const [from, one, two] = [digestOf(origin), { id: 1, tag: 'aa', loadedAt: 10n }, { id: 2, tag: 'bb', loadedAt: 11n }]
  const [a, b] = [pinName('a', from, one.id, one), pinName('b', from, one.id, two)]
  const pins = new Map([
    [a, one],
    [b, two],
  ])
  t.same(
    proven(['a', 'b'], from, pins),
    new Map([
      ['a', a],
      ['b', b],
    ]),
  )
  t.same(proven(['a', 'b'], from, new Map([...pins, ['stray', one]]))?.size, 2, 'whatever else is there')
  t.equal(proven(['a', 'b'], 'another digest', pins), undefined)
  t.equal(proven(['a', 'b', 'c'], from, pins), undefined, 'one is missing')
  for (const other of [{ id: 3 }, { tag: 'cc' }, { loadedAt: 12n }]) {
    t.equal(proven(['a', 'b'], from, new Map([...pins, [a, { ...one, ...other }]])), undefined, 'another is there')
  }
  t.equal(proven(['a', 'b'], from, new Map([...pins, [a, two]])), undefined, 'its neighbour is there')
})

t.test('programs of two loads are never taken together, and those of the later one first', async (t) => {
  const from = digestOf(origin)
  const load = (first: number): [string, { id: number; tag: string; loadedAt: bigint }][] =>
    ['a', 'b'].map((program, at) => {
      const told = { id: first + at, tag: program.repeat(2), loadedAt: BigInt(first) }
      return [pinName(program, from, first, told), told]
    })
  const [former, later] = [load(1), load(3)]
  const names = (pins: readonly [string, unknown][]) => pins.map(([pin]) => pin)
  const found = proven(['a', 'b'], from, new Map([...later, ...former]))
  t.same([...(found?.values() ?? [])], names(later))
  const halves = [
    [...former.slice(0, 1), ...later.slice(1)],
    [...later.slice(0, 1), ...former.slice(1)],
  ]
  for (const half of halves) t.equal(proven(['a', 'b'], from, new Map(half)), undefined, 'a half of each')
})

requireRoot(t)

/** The probe as an agent has it, and what of it is pinned. */
async function agent(t: Scope, pinDir: string, { path = objectPath('probe'), step = 1n } = {}) {
  const rodata = { step: Buffer.from(BigUint64Array.of(step).buffer) }
  const object = openObject(path, { pinDir, rodata, keepIn: join(pinDir, KEPT) })
  t.teardown(() => object.close())
  await object.load()
  return object
}

const ids = (object: BpfObject) => PROGRAMS.map((name) => object.program(name).id)
const kept = (pinDir: string) => readdirSync(join(pinDir, KEPT)).sort()
const pinOf = (pinDir: string, program: string) =>
  join(pinDir, KEPT, kept(pinDir).find((name) => name.startsWith(`${program}-`)) ?? '')

t.test('the next agent has the same programs, which work, with the same maps', async (t) => {
  const pinDir = layoutDir(bpffs(t))
  const first = await agent(t, pinDir)
  t.notOk(first.isTakenOver)
  t.equal(kept(pinDir).length, PROGRAMS.length)
  await runProgram(first.program('count_first').fd, { data: frame(), repeat: 3 })
  const before = ids(first)
  t.throws(() => first.map('verdict', u32, u64), /map verdict is to be pinned/)
  first.close()

  const second = await agent(t, pinDir)
  t.ok(second.isTakenOver)
  t.same(ids(second), before)
  await runProgram(second.program('count_first').fd, { data: frame(), repeat: 2 })
  t.equal(counter(second, 0), 5)
  t.throws(() => second.program('nobody'), /has no program nobody/)
  t.throws(() => second.map('verdict', u32, u64), /map verdict is to be pinned/)
  t.same(second.warnings, [])
  const [pins, counts] = [kept(pinDir), join(pinDir, 'counts')]
  rmSync(pinOf(pinDir, 'tell'))
  rmSync(counts)
  second.pinAgain()
  t.same(kept(pinDir), pins, 'pins that somebody deletes come back')
  t.ok(existsSync(counts))
  second.close()
  t.ok((await agent(t, pinDir)).isTakenOver)
})

/** Puts something else at the pin of a program. */
function forge(path: string, fd: number): void {
  rmSync(path)
  checked(libbpf().pin(fd, path), 'forge a pin')
}

/** A copy of the probe with other bytes and the same programs, or the same bytes. */
function copy(t: Scope, tail: string): string {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-build-'))
  t.teardown(() => rmSync(dir, { recursive: true }))
  const path = join(dir, 'probe.bpf.o')
  copyFileSync(objectPath('probe'), path)
  appendFileSync(path, tail)
  return path
}

interface Doubt {
  /** Between the two agents. */
  happens?(it: { t: Scope; pinDir: string; first: BpfObject }): unknown
  /** How the second loads. */
  next?(t: Scope): { path?: string; step?: bigint }
}

const DOUBTS: Record<string, Doubt> = {
  'the agent before kept nothing': { happens: ({ pinDir }) => rmSync(join(pinDir, KEPT), { recursive: true }) },
  'one program has lost its pin': { happens: ({ pinDir }) => rmSync(pinOf(pinDir, 'rewrite')) },
  'all pins are gone': {
    happens({ pinDir }) {
      for (const name of readdirSync(pinDir)) rmSync(join(pinDir, name), { recursive: true })
    },
  },
  'another program of the object is at the pin': {
    happens: ({ pinDir, first }) => forge(pinOf(pinDir, 'count_first'), first.program('count_second').fd),
  },
  'the same program, loaded once more, is at the pin': {
    async happens({ t, pinDir }) {
      const object = openObject(objectPath('probe'), { pinDir })
      t.teardown(() => object.close())
      await object.load()
      forge(pinOf(pinDir, 'count_first'), object.program('count_first').fd)
    },
  },
  'a map is at the pin': {
    happens: ({ pinDir, first }) => forge(pinOf(pinDir, 'count_first'), first.mapFd('counts')),
  },
  'a folder is at the pin': {
    happens({ pinDir }) {
      const path = pinOf(pinDir, 'count_first')
      rmSync(path)
      mkdirSync(path)
    },
  },
  'a map has lost its pin': { happens: ({ pinDir }) => rmSync(join(pinDir, 'counts')) },
  'another map is at the pin of one': {
    happens({ pinDir }) {
      const other = createMap({ name: 'counts', type: MAP_TYPE.array, maxEntries: 4, key: u32, value: u64 })
      forge(join(pinDir, 'counts'), other.fd)
      other.close()
    },
  },
  'a constant is another': { next: () => ({ step: 2n }) },
  'the build is another': { next: (t) => ({ path: copy(t, '\0') }) },
}

for (const [what, { happens, next }] of Object.entries(DOUBTS)) {
  t.test(`loaded anew, and kept for the next: ${what}`, async (t) => {
    const pinDir = layoutDir(bpffs(t))
    const first = await agent(t, pinDir)
    const before = ids(first)
    await happens?.({ t, pinDir, first })
    first.close()
    const options = next?.(t) ?? {}
    const second = await agent(t, pinDir, options)
    t.notOk(second.isTakenOver)
    t.same(
      ids(second).filter((id) => before.includes(id)),
      [],
    )
    await runProgram(second.program('count_first').fd, { data: frame(), repeat: 2 })
    t.equal(counter(second, 0), options.step === 2n ? 4 : 2, 'it is bound to the map that is pinned now')
    t.same(kept(pinDir).length, PROGRAMS.length, 'what the earlier agent kept is gone')
    const now = ids(second)
    second.close()
    const third = await agent(t, pinDir, options)
    t.ok(third.isTakenOver)
    t.same(ids(third), now)
  })
}

t.test('the same build in another place is the same build', async (t) => {
  const pinDir = layoutDir(bpffs(t))
  const before = ids(await agent(t, pinDir))
  t.same(ids(await agent(t, pinDir, { path: copy(t, '') })), before)
})

t.test('an upgrade puts another build in place while an agent runs: that one keeps its own', async (t) => {
  const [pinDir, path] = [layoutDir(bpffs(t)), copy(t, '')]
  const first = await agent(t, pinDir, { path })
  appendFileSync(path, '\0')
  rmSync(pinOf(pinDir, 'tell'))
  first.pinAgain()
  first.close()
  t.notOk((await agent(t, pinDir, { path })).isTakenOver)
})

t.test('wherever an agent is killed, the next one has whole programs, and leaves no others', async (t) => {
  t.comment(`KILLS=${KILLS} SEED=${SEED}`)
  const [pinDir, random] = [layoutDir(bpffs(t)), chance(SEED)]
  const script = fileURLToPath(new URL('./keeping-agent.js', import.meta.url))
  for (let kill = 0; kill < KILLS; kill++) {
    const child = fork(script, [pinDir], { execArgv: [], env: { ...process.env, NODE_OPTIONS: '' } })
    await once(child, 'message')
    await wait(random() * 60)
    child.kill('SIGKILL')
    await once(child, 'exit')
    const next = await agent(t, pinDir)
    next.map('counts', u32, u64).set(0, 0n)
    await runProgram(next.program('count_first').fd, { data: frame(), repeat: 2 })
    t.equal(counter(next, 0), 2)
    t.equal(kept(pinDir).length, PROGRAMS.length)
    const now = ids(next)
    next.close()
    const after = await agent(t, pinDir)
    t.ok(after.isTakenOver)
    t.same(ids(after), now)
    after.close()
  }
  const pinned = execFileSync('find', [pinDir, '-type', 'f'], { encoding: 'utf8' }).trim().split('\n')
  t.equal(pinned.length, PROGRAMS.length + 2, 'programs, counts, flows')
})
