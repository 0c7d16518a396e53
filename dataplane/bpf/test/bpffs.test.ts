import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { BPF_LAYOUT } from '../../numbers.ts'
import { ensureBpffs, isBpffs, layoutDir, layouts, removeLayout } from '../bpffs.ts'
import { bpffs, emptyDir, loadProbe } from './support.ts'

requireRoot(t)

t.test('a root that is no bpf filesystem becomes one, once', async (t) => {
  const dir = emptyDir(t)
  const root = join(dir, 'deep/er')
  t.equal(isBpffs(root), false)
  ensureBpffs(root)
  t.equal(isBpffs(root), true)
  mkdirSync(join(root, 'kept'))
  ensureBpffs(root)
  t.ok(existsSync(join(root, 'kept')), 'nothing was mounted over it')
  ensureBpffs(join(root, 'node'))
  t.equal(isBpffs(join(root, 'node')), true, 'a directory of a bpf filesystem serves as well')
  execFileSync('umount', [root])
  rmSync(join(dir, 'deep'), { recursive: true })
})

t.test('without privilege the operator is told what to do', async (t) => {
  const root = emptyDir(t)
  const module = fileURLToPath(new URL('../bpffs.js', import.meta.url))
  const script = `
    import { ensureBpffs } from ${JSON.stringify(module)}
    try { ensureBpffs(${JSON.stringify(root)}) } catch (error) { console.log(error.message, '|', error.cause.message) }
  `
  // Not by setuid of Node, which that of Debian 13 refuses.
  const node = ['--bounding-set=-all', process.execPath, '--input-type=module', '-e', script]
  const said = execFileSync('setpriv', node, { encoding: 'utf8' })
  t.match(said, `${root} is no bpf filesystem: run as root: mount -t bpf bpf ${root} | E`)
})

t.test('each layout has its own directory', async (t) => {
  const root = bpffs(t)
  t.same(layouts(root), [])
  const dir = layoutDir(root)
  t.equal(dir, join(root, `v${BPF_LAYOUT}`))
  t.equal(layoutDir(root), dir)
  mkdirSync(join(root, 'v12'))
  mkdirSync(join(root, 'other'))
  t.same(
    layouts(root),
    [BPF_LAYOUT, 12].sort((a, b) => a - b),
  )
  await loadProbe(t, { pinDir: join(root, 'v12') })
  removeLayout(root, 12)
  t.same(layouts(root), [BPF_LAYOUT])
  t.ok(existsSync(join(root, 'other')))
})
