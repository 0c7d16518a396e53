/** The programs compile without a warning, by whichever libbpf they are built on. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { requireProgram } from '../../../test/required.ts'

/** What libbpf 1.5 (Debian 13) declares beside what that of this machine does. */
const NEWER = `#include_next <bpf/bpf_helpers.h>
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;
`
const ROOT = resolve(import.meta.dirname, '../../../..')
const GENERATED = resolve(import.meta.dirname, '../src')
const SOURCES = join(ROOT, 'dataplane/bpf/src')

function compile(source: string, into: string, ...include: readonly string[]): void {
  const arch = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  const folders = [...include, GENERATED, SOURCES].flatMap((dir) => ['-I', dir])
  const flags = ['-O2', '-g', '-Wall', '-Werror', '-target', 'bpf', '-mcpu=v3']
  const system = ['-idirafter', `/usr/include/${arch}-linux-gnu`]
  execFileSync('clang', [...flags, ...folders, ...system, '-c', join(SOURCES, source), '-o', join(into, 'it.o')])
}

t.test('every program compiles by the headers of libbpf 1.1 and of 1.5', async (t) => {
  if (!requireProgram(t, 'clang')) return
  const dir = scratch(t)
  mkdirSync(join(dir, 'bpf'))
  writeFileSync(join(dir, 'bpf/bpf_helpers.h'), NEWER)
  for (const source of readdirSync(SOURCES).filter((file) => file.endsWith('.bpf.c'))) {
    t.doesNotThrow(() => compile(source, dir), source)
    t.doesNotThrow(() => compile(source, dir, dir), `${source} where libbpf declares what it calls`)
  }
})
