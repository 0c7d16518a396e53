import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { numbersHeader } from '../../../scripts/build.ts'
import type { Scope } from '../../../test/netns.ts'

const SCRIPT = fileURLToPath(new URL('../../../scripts/build.js', import.meta.url))

const PROGRAM = `
#include "numbers.h"
#include "parse.h"
int layout(void) { return STRATUM_BPF_LAYOUT + PARSED; }
`

/** A repository of these files, and a build that has it as its working directory. */
function repository(t: Scope, files: Record<string, string>) {
  const root = mkdtempSync(join(tmpdir(), 'stratum-build-'))
  t.teardown(() => rmSync(root, { recursive: true }))
  const write = (path: string, content: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
  for (const [path, content] of Object.entries(files)) write(path, content)
  return {
    write,
    has: (path: string) => existsSync(join(root, path)),
    read: (path: string) => readFileSync(join(root, path), 'utf8'),
    /** Makes a file 10 s older. */
    age(path: string) {
      const time = new Date(statSync(join(root, path)).mtimeMs - 10_000)
      utimesSync(join(root, path), time, time)
    },
    modified: (path: string) => statSync(join(root, path)).mtimeMs,
    mode: (path: string) => statSync(join(root, path)).mode & 0o777,
    build(env: NodeJS.ProcessEnv = process.env) {
      const { status, stderr } = spawnSync(process.execPath, [SCRIPT], { cwd: root, env, encoding: 'utf8' })
      return { status, stderr }
    },
  }
}

t.test('numbers become a C header', async (t) => {
  const header = numbersHeader({ PRIORITY: -150, LAYOUT: 1, MASK: 0xffn, LOW: -1n, NAME: 'st', call: () => 1 })
  t.equal(
    header,
    [
      '/* Made by scripts/build.ts from dataplane/numbers.ts: change it there. */',
      '#pragma once',
      '',
      '#define STRATUM_LAYOUT 1',
      '#define STRATUM_LOW (-1LL)',
      '#define STRATUM_MASK 255ULL',
      '#define STRATUM_PRIORITY (-150)',
      '',
    ].join('\n'),
  )
  t.throws(() => numbersHeader({ HALF: 0.5 }), /HALF = 0.5 is no whole number for C/)
})

t.test('files read at run time are copied, sources are not', async (t) => {
  const repo = repository(t, {
    'plugins/lb/migrations/0000.sql': 'select 1;',
    'plugins/lb/migrations/meta/_journal.json': '{}',
    'plugins/lb/index.ts': '',
    'plugins/lb/README.md': '',
    'core/skeleton.nft': 'table inet x {}',
    'proto/health.proto': 'syntax = "proto3";',
    'templates/area/index.ts': 'export {}',
    'templates/area/README.md': '# NAME',
    'build/core/main.js': '',
  })
  t.same(repo.build(), { status: 0, stderr: '' })
  t.equal(repo.read('build/plugins/lb/migrations/0000.sql'), 'select 1;')
  for (const path of ['plugins/lb/migrations/meta/_journal.json', 'core/skeleton.nft', 'proto/health.proto']) {
    t.ok(repo.has(join('build', path)), path)
  }
  t.ok(repo.has('build/templates/area/index.ts') && repo.has('build/templates/area/README.md'))
  t.notOk(repo.has('build/plugins/lb/index.ts') || repo.has('build/plugins/lb/README.md'))
  t.match(repo.read('build/dataplane/bpf/src/numbers.h'), /#define STRATUM_BPF_LAYOUT [0-9]+\n/)

  repo.age('core/skeleton.nft')
  const before = repo.modified('build/core/skeleton.nft')
  repo.build()
  t.equal(repo.modified('build/core/skeleton.nft'), before, 'not copied again')
  repo.write('core/skeleton.nft', 'table inet y {}')
  repo.build()
  t.equal(repo.read('build/core/skeleton.nft'), 'table inet y {}')
})

t.test('programs are compiled when they or a header changed', async (t) => {
  const repo = repository(t, {
    'dataplane/bpf/src/port.bpf.c': PROGRAM,
    'dataplane/bpf/src/parse.h': '#define PARSED 1\n',
    'build/core/main.js': '',
  })
  const object = 'build/dataplane/bpf/src/port.bpf.o'
  t.same(repo.build(), { status: 0, stderr: '' })
  t.ok(repo.has(object))
  const first = repo.modified(object)
  repo.build()
  t.equal(repo.modified(object), first, 'nothing changed')

  repo.age(object)
  repo.build()
  t.ok(repo.modified(object) >= first, 'older than the header')

  repo.write('dataplane/bpf/src/port.bpf.c', 'int layout(void) { return missing; }')
  repo.age(object)
  const { status, stderr } = repo.build()
  t.equal(status, 1)
  t.match(stderr, /port\.bpf\.c:1:.*use of undeclared identifier 'missing'/)
  t.notOk(repo.has(object), 'an object of old source does not stay')
})

t.test('without clang the rest is built, and the operator told', async (t) => {
  const repo = repository(t, { 'dataplane/bpf/src/port.bpf.c': PROGRAM, 'core/a.sql': '' })
  t.same(repo.build({ PATH: '' }), {
    status: 0,
    stderr: 'clang is missing: apt-get install clang (the agent then runs without BPF)\n',
  })
  t.ok(repo.has('build/core/a.sql'))
  t.notOk(repo.has('build/dataplane/bpf/src/port.bpf.o'))
})

t.test('binaries are executable', async (t) => {
  const repo = repository(t, { 'build/core/main.js': '', 'build/core/cli/main.js': '' })
  repo.build()
  for (const path of ['build/core/main.js', 'build/core/cli/main.js']) t.equal(repo.mode(path), 0o755)
})
