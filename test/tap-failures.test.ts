/** What the last lines of `npm test` say: which assertions failed, and why. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { failuresIn, report } from '../scripts/tap-failures.ts'
import { timesIn } from '../scripts/tap-times.ts'
import { scratch } from './build.ts'

const ROOT = join(import.meta.dirname, '..', '..')

const TAP = `TAP version 14
1..3
# Subtest: build/a.test.js
    # Subtest: outer
        ok 1 - fine
        # Subtest: inner
            not ok 1 - deep
              ---
              diff: |
                --- expected
                not ok 9 - is text of the block
              at:
                fileName: build/a.test.js
              source: >
                t.same(1, 2)

                more
              compare: ===
              ...
            not ok 2 - later # TODO
            1..2
        not ok 2 - inner # time=20.711ms
          ---
          at:
            fileName: build/a.test.js
          ...
        1..2
    not ok 1 - outer # time=29.47ms
    # Subtest: the next
        ok 1 - fine
        1..1
    ok 2 - the next # time=1ms
    not ok 3 - alone
    1..3
not ok 1 - build/a.test.js # time=43.917ms
  ---
  cwd: /tmp
  exitCode: 1
  ...
# Subtest: build/b.test.js
    1..0 # no tests found
not ok 2 - build/b.test.js # time=699.317ms
  ---
  cwd: /tmp
  args:
    - b.test.js
  exitCode: 7
  signal: null
  ...
# Subtest: build/c.test.js
    ok 1 - fine # SKIP not here
    not ok 2 - nor here # SKIP
    1..2
ok 3 - build/c.test.js # time=7.872ms
`

t.test('the assertions that failed, and what is told of them', async (t) => {
  const failures = failuresIn(TAP)
  t.same(failures, [
    {
      titles: ['build/a.test.js', 'outer', 'inner', 'deep'],
      lines: [
        'diff: |',
        '  --- expected',
        '  not ok 9 - is text of the block',
        'at:',
        '  fileName: build/a.test.js',
        'compare: ===',
      ],
    },
    { titles: ['build/a.test.js', 'alone'], lines: [] },
    { titles: ['build/b.test.js'], lines: ['exitCode: 7', 'signal: null'] },
  ])
  const text = report(failures, 2, 3)
  t.match(text, /^3 failed:\nbuild\/a\.test\.js > outer > inner > deep\n {4}diff: \|\n/)
  t.match(text, / {6}not ok 9 .*\n {4}\.\.\.\nbuild\/a\.test\.js > alone\n\.\.\. and 1 more\nFailed in 2 files:\n/)
  t.ok(text.endsWith('\n    build/a.test.js\n    build/b.test.js\n'))
  t.equal(report(failuresIn('1..0\n')), '')
  t.equal(failuresIn('not ok 1 - x\n  ---\n  cut off').length, 1)
})

t.test('a run ends as its tests do, and says last what failed', async (t) => {
  const dir = scratch(t)
  symlinkSync(join(ROOT, 'node_modules'), join(dir, 'node_modules'))
  // What tap keeps of a run is the run's own; only its plugins are not to be made again.
  mkdirSync(join(dir, '.tap'))
  symlinkSync(join(ROOT, '.tap/plugins'), join(dir, '.tap/plugins'))
  writeFileSync(join(dir, 'package.json'), '{"name": "x", "type": "module"}')
  writeFileSync(join(dir, '.taprc'), 'plugin:\n  - "!@tapjs/typescript"\ndisable-coverage: true\n')
  const run = (name: string, text: string) => {
    writeFileSync(join(dir, name), `import t from 'tap'\n${text}\n`)
    const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^_?TAP/.test(key)))
    return spawnSync(process.execPath, [join(ROOT, 'build/scripts/test.js'), name], { cwd: dir, env, encoding: 'utf8' })
  }
  const bad = run('bad.test.js', "t.test('outer', async (t) => { t.equal(1, 2, 'one is two') })")
  t.equal(bad.status, 1, bad.stderr)
  t.match(bad.stdout, /\n1 failed:\nbad\.test\.js > outer > one is two\n[\s\S]*\n {6}-2\n[\s\S]*\n {4}bad\.test\.js\n$/)
  const good = run('good.test.js', "t.equal(1, 1, 'one is one')")
  t.equal(good.status, 0, good.stderr)
  t.notMatch(good.stdout, /failed:/)
})

t.test('where the time went: by folder, then the slowest files; a run of few files says nothing', async (t) => {
  const file = (n: number, ms: number) =>
    `${n % 5 ? '' : 'not '}ok ${n} - build/plugins/${n % 2 ? 'nat' : 'lb'}/test/f${n}.test.js # time=${ms}ms`
  const files = Array.from({ length: 14 }, (_, n) => file(n + 1, (n + 1) * 1000.4))
  const told = timesIn(['TAP version 14', '    ok 1 - inner # time=9000ms', ...files].join('\n')).split('\n')
  t.equal(told[0], '   105 s  all 14 files, one after the other')
  t.same(told.slice(1, 3), ['    56 s  plugins/lb (7)', '    49 s  plugins/nat (7)'])
  t.equal(told[3], '    14 s  plugins/lb/test/f14')
  t.equal(timesIn(files.slice(0, 3).join('\n')), '')
})
