/** The file that a panel writes: taken whole or not at all, also across restarts. */
import { existsSync, mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../test/build.ts'
import { type ConfigKeys, checks, openConfig } from '../config.ts'
import { watchFiles } from '../watch-files.ts'

const KEYS: ConfigKeys = {
  size: { default: '1', check: checks.int(1, 100), effective: 'now', summary: 'a number' },
  names: { default: '', effective: 'now', summary: 'a list' },
  place: { default: '', effective: 'restart', summary: 'a place' },
}

const checkedKey: ConfigKeys[string] = {
  ...KEYS.size,
  default: '1',
  effective: 'restart',
  summary: 'guards',
  check: checks.int(1, 2),
}

function node(t: Parameters<typeof scratch>[0]) {
  const dir = scratch(t)
  const [file, copy] = [join(dir, 'panel.json'), join(dir, 'copy')]
  const overrides: Record<string, string> = {}
  return {
    dir,
    file,
    copy,
    overrides,
    write: (value: unknown) => writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value)),
    open: () => openConfig(KEYS, { file, copy, overrides: () => overrides, environment: {} }),
  }
}

t.test('enable-19 D27 overrides win over the file, the file over defaults, whatever the file turns into', async (t) => {
  const { write, open, overrides, file } = node(t)
  write({ size: 5, names: ['a', 'b'], place: 'here', unknown: true })
  const config = open()
  t.same([config.int('size'), config.list('names'), config.text('place')], [5, ['a', 'b'], 'here'])
  overrides.size = '7'
  await config.reload()
  t.same([config.int('size'), config.source('size')], [7, 'override'])
  write({ size: 9, place: 'there' })
  await config.reload()
  t.same([config.int('size'), config.list('names')], [7, []])
  t.same([config.text('place'), config.stored('place')], ['here', 'there'], 'at the next start')
  delete overrides.size
  await config.reload()
  t.equal(config.int('size'), 9)
  rmSync(file)
  await config.reload()
  t.same([config.int('size'), config.source('size')], [1, 'default'])
})

t.test('enable-19 a file that cannot be used changes nothing, says why, and does not stop local changes', async (t) => {
  const { write, open, overrides, file } = node(t)
  write({ size: 5, names: 'a' })
  const config = open()
  const heard: string[] = []
  config.onChange((key) => heard.push(key))
  const broken: [unknown, RegExp][] = [
    ['', /panel\.json must hold one JSON object; what it said before stays in force$/],
    ['{"size": 6', /must hold one JSON object/],
    ['[1]', /must hold one JSON object/],
    [{ size: 6, names: null }, /names: must be a string/],
    [{ names: 'b', size: 101 }, /size: must be a whole number from 1 to 100/],
  ]
  for (const [content, why] of broken) {
    write(content)
    await config.reload()
    t.match(config.fileProblem(), why)
    t.same([config.int('size'), config.text('names')], [5, 'a'])
  }
  t.same(heard, [])
  overrides.size = '8'
  await config.reload()
  t.equal(config.int('size'), 8)
  rmSync(file)
  mkdirSync(file)
  await config.reload()
  t.match(config.fileProblem(), /cannot be read/)
  rmSync(file, { recursive: true })
  write({ names: 'c' })
  await config.reload()
  t.same([config.fileProblem(), config.text('names')], [undefined, 'c'])
})

t.test(
  'enable-19 an agent that starts while the file is broken runs with what the file said when it was well',
  async (t) => {
    const { write, open, copy, file } = node(t)
    write({ size: 5 })
    open()
    t.equal(statSync(copy).mode & 0o777, 0o600)
    write('{"size":')
    const next = open()
    t.same([next.int('size'), next.source('size')], [5, 'file'])
    t.match(next.fileProblem(), /must hold one JSON object/)
    rmSync(file)
    t.equal(open().int('size'), 1, 'an absent file is no broken one')
    t.notOk(existsSync(copy))
    write('nonsense')
    for (const kept of [undefined, '{"size": 1000}']) {
      if (kept !== undefined) writeFileSync(copy, kept)
      const lost = open()
      t.same([lost.int('size'), lost.source('size')], [1, 'default'], 'nothing usable was kept')
      t.match(lost.fileProblem(), /must hold one JSON object; none of it is in force$/)
      t.match(lost.closed(), /correct the file and restart stratumd$/, 'what it should guard stays shut')
      write({ size: 6 })
      await lost.reload()
      t.same([lost.int('size'), lost.fileProblem()], [6, undefined])
      t.ok(lost.closed(), 'until the next start, at which all of it counts')
      t.equal(open().closed(), undefined)
      write('nonsense')
      rmSync(copy)
    }
  },
)

t.test('a value that cannot be used is ignored, named with its place, and closes what it guards', async (t) => {
  const { file, write } = node(t)
  const keys: ConfigKeys = { ...KEYS, who: { ...checkedKey, guards: true } }
  const open = (overrides: Record<string, string>, environment: Record<string, string> = {}) =>
    openConfig(keys, { file, overrides: () => overrides, environment })
  write({ size: 5, constructor: 'x', ['__proto__']: 'x' })
  const config = open({ size: '700', toString: 'x', names: 'a' }, { STRATUM_SIZE: 'x' })
  t.same([config.int('size'), config.source('size'), config.text('names')], [5, 'file', 'a'])
  t.equal(config.closed(), undefined)
  t.same(config.ignored(), [
    'size in the local overrides is ignored: must be a whole number from 1 to 100; stratumctl config unset size',
    'toString in the local overrides is ignored: this version has no such configuration key; stratumctl config unset toString',
    'size in the environment is ignored: must be a whole number from 1 to 100; correct STRATUM_SIZE and restart stratumd',
  ])
  t.match(open({ who: 'x' }).closed(), /^who in the local overrides is ignored/)
})

t.test('what is in force though it cannot be kept is told', async (t) => {
  const { write, open, copy } = node(t)
  write({ size: 5 })
  const config = open()
  rmSync(copy)
  mkdirSync(join(copy, 'in the way'), { recursive: true })
  write({ size: 6 })
  await config.reload()
  t.equal(config.int('size'), 6)
  t.match(config.fileProblem(), /could not be kept/)
  rmSync(copy, { recursive: true })
  await config.reload()
  t.equal(config.fileProblem(), undefined)
})

/** Resolves when `looks` has grown, and then stood still for a while. */
function watched(t: Parameters<typeof scratch>[0], paths: readonly string[], intervalMs: number) {
  let [looks, wake] = [0, () => {}]
  const awake = setInterval(() => {}, 1000)
  const look = () => {
    looks++
    wake()
  }
  const stop = watchFiles(paths, look, { intervalMs, debounceMs: 30 })
  t.teardown(() => {
    clearInterval(awake)
    stop()
  })
  return {
    stop,
    count: () => looks,
    async next() {
      const before = looks
      while (looks === before) await new Promise<void>((resolve) => (wake = resolve))
    },
  }
}

t.test('a file is watched through rewriting, renaming over it, removal and return', async (t) => {
  const dir = scratch(t)
  const file = join(dir, 'file')
  writeFileSync(file, '0')
  // Stat would come too late: what is seen here is seen by its directory.
  const { next } = watched(t, [file], 600_000)
  await next()
  const deeds: (() => void)[] = [
    () => writeFileSync(file, 'in place'),
    () => {
      writeFileSync(`${file}.tmp`, 'renamed')
      renameSync(`${file}.tmp`, file)
    },
    () => rmSync(file),
    () => writeFileSync(file, 'again'),
  ]
  for (const deed of [...deeds, ...deeds]) {
    const seen = next()
    deed()
    await seen
  }
  t.pass('each was seen')
})

t.test('writes that follow each other are one look; those of others beside the file are none', async (t) => {
  const dir = scratch(t)
  const file = join(dir, 'file')
  const { next, count } = watched(t, [file], 600_000)
  await next()
  const before = count()
  const seen = next()
  for (let n = 0; n < 50; n++) writeFileSync(file, String(n))
  await seen
  t.equal(count(), before + 1)
  // A busy neighbour does not put off the look.
  const busy = setInterval(() => writeFileSync(join(dir, 'neighbour'), 'x'), 5)
  const again = next()
  writeFileSync(file, 'x')
  await again
  clearInterval(busy)
  t.equal(count(), before + 2)
})

t.test(
  'what inotify does not see is seen by stat: a directory that comes later, a link that points elsewhere',
  async (t) => {
    const dir = scratch(t)
    const file = join(dir, 'later', 'file')
    const { next } = watched(t, [file], 20)
    await next()
    for (const target of ['one', 'two']) {
      mkdirSync(join(dir, target))
      writeFileSync(join(dir, target, 'file'), target)
      symlinkSync(target, join(dir, 'link'))
      const seen = next()
      renameSync(join(dir, 'link'), join(dir, 'later'))
      await seen
    }
    t.pass('both were seen')
  },
)

t.test('whoever stops watching hears nothing any more', async (t) => {
  const file = join(scratch(t), 'file')
  const { next, stop, count } = watched(t, [file], 10)
  await next()
  const before = count()
  writeFileSync(file, 'x')
  stop()
  writeFileSync(file, 'xx')
  const other = watched(t, [file], 10)
  await other.next()
  t.equal(count(), before)
})
