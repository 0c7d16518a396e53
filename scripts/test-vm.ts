/**
 * Runs a command as root in a throw-away virtual machine with Debian 12's own kernel: the oldest kernel that the agent
 * supports, and one that has the modules (bonding, 8021q, bridge VLAN filtering) that a container's kernel may lack.
 *
 *   npm run test:vm                                   the tests of scripts/vm-tests.ts
 *   npm run test:vm -- node build/plugins/l2/test/bond.test.js
 *
 * VM_KERNEL is the folder of another kernel (scripts/kernels.ts), VM_CPUS the number of its processors. A kernel for arm64 gets
 * such a processor, and the userland of scripts/foreign.ts in place of this machine's, with this checkout in it.
 *
 * The command sees this machine's files through an overlay, so what it writes is gone afterwards; its output is ours, and so is its exit status.
 * Emulates the processor, which is some 10 times slower; VM_ACCEL=kvm where nested virtualisation is sound. Needs root, the packages of PACKAGES and the kernel, which
 * `npm run setup -- --test` fetches (`--fetch`); says what is missing and ends with 77.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'
import { FOREIGN } from './foreign.ts'
import { type Arch, fetchOldest, type Kernel, kernelIn, OLDEST } from './kernels.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const KERNEL = process.env.VM_KERNEL ?? OLDEST
const CPUS = process.env.VM_CPUS ?? '2'
const MEMORY = '3072M'
/** How many times longer tests wait there. */
const PATIENCE = '6'
const TIMEOUT_MS = Number(process.env.VM_TIMEOUT ?? 3000) * 1000
const ACCELERATOR = process.env.VM_ACCEL ?? 'tcg,thread=multi,tb-size=256'
const SKIPPED = 77
/** Without the marker the machine did not come to its end. */
const LOST = 125

/** How a machine is had, and what of it the kernel and its root file system must know. */
interface Machine {
  program: string
  package: string
  board: string
  console: string
  /** Of the root file system, as this machine has it; '' for its own. */
  root: string
}

const MACHINES: Readonly<Record<Arch, Machine>> = {
  amd64: { program: 'qemu-system-x86_64', package: 'qemu-system-x86', board: 'pc', console: 'ttyS0', root: '' },
  arm64: {
    program: 'qemu-system-aarch64',
    package: 'qemu-system-arm',
    board: 'virt',
    console: 'ttyAMA0',
    root: FOREIGN,
  },
}

const PACKAGES = {
  depmod: 'kmod',
  cpio: 'cpio',
  xz: 'xz-utils',
  busybox: 'busybox-static',
}
/** Debian 12 has it with qemu, later ones in a package of its own. */
const FILE_SERVERS = ['/usr/lib/qemu/virtiofsd', '/usr/libexec/virtiofsd']
/** What the initramfs must load before the root file system is there. */
const EARLY_MODULES = ['virtio_pci', 'virtiofs', 'overlay']

const output = (command: string, args: readonly string[], cwd = ROOT) =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

function whatIsMissing(machine: Machine): string[] {
  const path = (process.env.PATH ?? '').split(':').concat('/usr/sbin', '/sbin')
  const found = (name: string) => path.some((dir) => existsSync(join(dir, name)))
  const missing = Object.entries({ ...PACKAGES, [machine.program]: machine.package }).flatMap(([tool, name]) =>
    found(tool) ? [] : [name],
  )
  if (!FILE_SERVERS.some(existsSync)) missing.push('virtiofsd')
  return missing
}

/** First program in the machine: brings up the shared root below an overlay, then hands over to `script`. */
function initScript(modules: readonly string[], { base, version, arch }: Kernel, script: string): string {
  const b = '/bin/busybox'
  const overlay = (below: string, name: string, on: string) => [
    `${b} mkdir -p /upper/${name}/changed /upper/${name}/work ${on}`,
    `${b} mount -t overlay -o lowerdir=/lower${below},upperdir=/upper/${name}/changed,workdir=/upper/${name}/work root ${on}`,
  ]
  const { root } = MACHINES[arch]
  return [
    `#!${b} sh`,
    `${b} mount -t devtmpfs dev /dev; ${b} mount -t proc proc /proc; ${b} mount -t sysfs sys /sys`,
    ...modules.map((module) => `${b} insmod /modules/${module}`),
    `${b} mount -t virtiofs host /lower`,
    `${b} mount -t tmpfs upper /upper`,
    ...overlay(root, 'root', '/root'),
    ...(root === '' ? [] : overlay(ROOT, 'checkout', `/root${ROOT}`)),
    // Modules load on demand only for a root that switch_root made, and from its /lib/modules.
    `${b} mkdir -p /root/lib/modules; ${b} ln -s ${base}/lib/modules/${version} /root/lib/modules/${version}`,
    `for dir in dev proc sys; do ${b} mount --move /$dir /root/$dir; done`,
    // Not over /tmp: the project itself may lie there.
    `${b} mount -t tmpfs run /root/run`,
    `exec ${b} switch_root /root /bin/bash -c ${quoted(script)}`,
    '',
  ].join('\n')
}

/** Of the descriptors that the file server may have, half: it holds one for every file that the machine knows. */
const KNOWN_FILES = Math.floor((Number(output('bash', ['-c', 'ulimit -Hn'])) || 1_000_000) / 2)
const FORGET = `known=$(grep ^fuse_inode /proc/slabinfo) && set -- $known && [ $2 -gt ${KNOWN_FILES} ] && echo 2 >/proc/sys/vm/drop_caches`

/** Runs as PID 1 in the machine. The marker tells the exit status; serial lines end in CR LF. */
function guestScript(command: readonly string[]): string {
  return [
    'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/run/tmp',
    `export STRATUM_TEST_MACHINE=1 STRATUM_TEST_PATIENCE=${PATIENCE}; export TAP_TIMEOUT=$((240 * ${PATIENCE}))`,
    'mkdir -p /run/netns /run/lock /run/tmp; mount -t bpf bpf /sys/fs/bpf; mount -t cgroup2 cgroup /sys/fs/cgroup',
    'mkdir -p /dev/shm /dev/pts; mount -t tmpfs shm /dev/shm; mount -t devpts pts /dev/pts; ip link set lo up',
    `while sleep 1; do ${FORGET}; done &`,
    `cd ${quoted(ROOT)}`,
    `${command.map(quoted).join(' ')} </dev/null 2>&1`,
    'status=$?; echo; echo VM_EXIT=$status',
    'busybox poweroff -f; sleep 60',
  ].join('\n')
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

function initramfs(work: string, used: Kernel, command: readonly string[]): string {
  const tree = join(work, 'initramfs')
  for (const dir of ['bin', 'modules', 'dev', 'proc', 'sys', 'lower', 'upper', 'root']) {
    mkdirSync(join(tree, dir), { recursive: true })
  }
  const modules: string[] = []
  for (const module of EARLY_MODULES) {
    const needed = output('modprobe', ['-d', used.base, '-S', used.version, '--show-depends', module])
    for (const [, file = ''] of needed.matchAll(/^insmod (\S+)/gm)) {
      const name = basename(file).replace(/\.xz$/, '')
      if (modules.includes(name)) continue
      modules.push(name)
      writeFileSync(join(tree, 'modules', name), unpacked(file))
    }
  }
  const { root } = MACHINES[used.arch]
  const busybox = ['/bin/busybox', '/usr/bin/busybox'].map((path) => join(root, path)).find(existsSync)
  if (busybox === undefined) throw new Error('busybox is missing')
  copyFileSync(busybox, join(tree, 'bin/busybox'))
  writeFileSync(join(tree, 'init'), initScript(modules, used, guestScript(command)), { mode: 0o755 })
  const archive = join(work, 'initramfs.cpio')
  output('bash', ['-c', `find . | cpio -o -H newc --quiet > ${quoted(archive)}`], tree)
  return archive
}

/** busybox loads no compressed modules; Debian's kernels have such from 6.12 on. */
function unpacked(module: string): Buffer {
  if (!module.endsWith('.xz')) return readFileSync(module)
  return execFileSync('xz', ['-dc', module], { maxBuffer: 64 << 20 })
}

async function fileServer(work: string): Promise<{ socket: string; stop(): void }> {
  const socket = join(work, 'fs.sock')
  const program = FILE_SERVERS.find(existsSync) ?? ''
  const line = `ulimit -n "$(ulimit -Hn)"; exec ${program} --socket-path=${quoted(socket)} -o source=/ -o cache=always -o sandbox=chroot`
  const child = spawn('bash', ['-c', line], { stdio: 'ignore' })
  const gone = once(child, 'exit')
  while (!existsSync(socket)) {
    const ended = await Promise.race([gone.then(() => true), new Promise((wait) => setTimeout(wait, 20))])
    if (ended === true) throw new Error(`${program} does not start`)
  }
  return { socket, stop: () => void child.kill() }
}

function boot(used: Kernel, archive: string, socket: string): ChildProcess {
  const { program, board, console } = MACHINES[used.arch]
  const append = `console=${console} quiet loglevel=3 panic=-1 mitigations=off random.trust_cpu=on rdinit=/init`
  return spawn(
    program,
    [
      ...['-M', board, '-accel', ACCELERATOR, '-cpu', 'max', '-smp', CPUS, '-m', MEMORY],
      ...['-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none', '-serial', 'stdio'],
      // A card without a cable, for what is said of cards.
      ...['-device', 'virtio-net-pci,romfile='],
      ...['-kernel', used.image, '-initrd', archive, '-append', append],
      ...['-object', `memory-backend-memfd,id=memory,size=${MEMORY},share=on`, '-numa', 'node,memdev=memory'],
      ...['-chardev', `socket,id=fs,path=${socket}`, '-device', 'vhost-user-fs-pci,chardev=fs,tag=host'],
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
}

async function main(given: readonly string[]): Promise<number> {
  const command = given.length === 0 ? ['node', join(ROOT, 'build/scripts/vm-tests.js')] : given
  const { arch } = existsSync(KERNEL) ? kernelIn(KERNEL) : { arch: 'amd64' as const }
  const missing = process.getuid?.() === 0 ? whatIsMissing(MACHINES[arch]) : ['root']
  if (missing.length === 0 && command[0] === '--fetch') {
    fetchOldest()
    return 0
  }
  if (!existsSync(KERNEL)) missing.push('the kernel (test-vm --fetch)')
  if (arch === 'arm64' && !existsSync(FOREIGN))
    missing.push('a userland for arm64 (npm run test:kernels -- --arch arm64)')
  if (missing.length > 0) {
    process.stderr.write(`test-vm: skipped, missing: ${missing.join(' ')}\n`)
    return SKIPPED
  }
  const work = mkdtempSync(join(tmpdir(), 'stratum-vm-'))
  try {
    const used = kernelIn(KERNEL)
    const files = await fileServer(work)
    const machine = boot(used, initramfs(work, used, command), files.socket)
    const end = () => machine.kill('SIGKILL')
    const timer = setTimeout(end, TIMEOUT_MS)
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, end)
    const status = await follow(machine)
    clearTimeout(timer)
    files.stop()
    return status
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

async function follow(machine: ChildProcess): Promise<number> {
  const gone = once(machine, 'exit')
  let status = LOST
  if (machine.stdout === null) throw new TypeError('the serial line must be piped')
  for await (const line of createInterface({ input: machine.stdout })) {
    const marker = /^VM_EXIT=(\d+)/.exec(line)
    if (marker) status = Number(marker[1])
    else process.stdout.write(`${line.replace(/\r$/, '')}\n`)
  }
  await gone
  return status
}

process.exitCode = await main(process.argv.slice(2))
