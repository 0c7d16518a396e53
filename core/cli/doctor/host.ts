/** What can be seen of the node without the agent: kernel, libraries, disk, certificate. Reads files and asks nobody. */
import { X509Certificate } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statfsSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import type { Places } from '../../environment.ts'
import type { Finding } from './finding.ts'

const DAY_MS = 86_400_000
/** linux/magic.h */
const BPF_FS_MAGIC = 0xcafe4a11
const LIBRARY_DIRS = ['/lib', '/usr/lib', '/usr/lib64', '/usr/local/lib']

export function lookAtHost(places: Places): Finding[] {
  return [
    ...kernelFindings(release(), existsSync('/sys/kernel/btf/vmlinux')),
    ...bpfFindings(places.bpfDir),
    ...libraryFindings(),
    ...frrFindings(places.frrDir),
    ...diskFindings(places.stateDir),
    ...conntrackFindings(number('nf_conntrack_count'), number('nf_conntrack_max')),
  ]
}

function number(name: string): number {
  return Number(readOr(`/proc/sys/net/netfilter/${name}`) ?? Number.NaN)
}
function readOr(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** What needs which kernel: architecture §5, and the facilities' own words. */
const KERNEL_NEEDS: readonly [major: number, minor: number, what: string][] = [
  [5, 10, 'nftables as the agent uses it'],
  [6, 1, 'programs on workload ports, so none of them carries traffic'],
  [6, 4, 'eBPF classifier and no eBPF load balancer; nft judges and balances instead'],
]

export function kernelFindings(text: string, btf: boolean): Finding[] {
  const [major = 0, minor = 0] = text.split('.').map(Number.parseFloat)
  const lacks = KERNEL_NEEDS.filter(([least, then]) => major < least || (major === least && minor < then))
  const about = 'kernel'
  const remedy = 'a newer kernel: on Debian 12, linux-image-amd64 of bookworm-backports'
  return [
    ...(lacks.length === 0 ? [{ severity: 'ok' as const, about, what: `Linux ${text}` }] : []),
    ...lacks.map(([least, then, what]): Finding => {
      return { severity: 'warning', about, what: `Linux ${text} is older than ${least}.${then}: no ${what}`, remedy }
    }),
    ...(btf ? [] : [noBtf]),
  ]
}
const noBtf: Finding = {
  severity: 'warning',
  about: 'kernel',
  what: 'has no type information (/sys/kernel/btf/vmlinux): no eBPF classifier',
  remedy: 'a kernel with CONFIG_DEBUG_INFO_BTF',
}

function bpfFindings(bpfDir: string): Finding[] {
  const about = 'bpf filesystem'
  // The folder itself is made by the agent.
  const dir = existsSync(bpfDir) ? bpfDir : join(bpfDir, '..')
  const ours = existsSync(bpfDir) ? `${readdirSync(bpfDir).length} entries of ours` : 'nothing of ours yet'
  try {
    if (statfsSync(dir).type === BPF_FS_MAGIC) return [{ severity: 'ok', about, what: `${dir}: ${ours}` }]
  } catch (error) {
    return [{ severity: 'warning', about, what: `${dir}: ${(error as Error).message}`, remedy: 'run doctor as root' }]
  }
  return [{ severity: 'warning', about, what: `none at ${dir}`, remedy: 'mount -t bpf bpf /sys/fs/bpf' }]
}

function libraryFindings(): Finding[] {
  const dirs = LIBRARY_DIRS.filter(existsSync).flatMap((dir) => [
    dir,
    ...readdirSync(dir)
      .filter((name) => name.endsWith('-linux-gnu'))
      .map((name) => join(dir, name)),
  ])
  const wanted = [
    { file: 'libnftables.so.1', name: 'libnftables1', severity: 'failure' as const },
    { file: 'libbpf.so.1', name: 'libbpf1', severity: 'warning' as const },
  ]
  return wanted.map(({ file, name, severity }): Finding => {
    if (dirs.some((dir) => existsSync(join(dir, file)))) return { severity: 'ok', about: 'library', what: file }
    return { severity, about: 'library', what: `${file} is missing`, remedy: `apt-get install ${name}` }
  })
}

function frrFindings(frrDir: string): Finding[] {
  if (existsSync(join(frrDir, 'bgpd'))) return [{ severity: 'ok', about: 'FRR', what: frrDir }]
  return [{ severity: 'warning', about: 'FRR', what: `no bgpd in ${frrDir}: no BGP`, remedy: 'apt-get install frr' }]
}

function diskFindings(dir: string): Finding[] {
  const about = 'disk'
  if (!existsSync(dir)) return [{ severity: 'note', about, what: `${dir} is not there yet` }]
  const { bavail, blocks, bsize, ffree, files } = statfsSync(dir)
  return [diskFinding(dir, { free: bavail * bsize, total: blocks * bsize, inodes: files === 0 ? 1 : ffree / files })]
}

/** A store that cannot grow refuses changes. `inodes`: the share that is free. */
export function diskFinding(
  dir: string,
  { free, total, inodes }: { free: number; total: number; inodes: number },
): Finding {
  const share = total === 0 ? 1 : free / total
  const what = `${dir}: ${Math.round(free / 1e6)} MB free (${(share * 100).toFixed(0)} %)${inodes < 0.02 ? ', few inodes' : ''}`
  const severity =
    free < 20e6 || inodes === 0 ? 'failure' : free < 200e6 || share < 0.05 || inodes < 0.02 ? 'warning' : 'ok'
  return {
    severity,
    about: 'disk',
    what,
    ...(severity !== 'ok' && { remedy: `make room on the file system of ${dir}` }),
  }
}

export function conntrackFindings(count: number, max: number): Finding[] {
  if (Number.isNaN(count) || Number.isNaN(max) || max === 0) return []
  const what = `${count} of ${max} connections are tracked`
  if (count < max * 0.9) return [{ severity: 'ok', about: 'conntrack', what }]
  const remedy = 'sysctl net.netfilter.nf_conntrack_max; a full table drops new connections'
  return [{ severity: count >= max ? 'failure' : 'warning', about: 'conntrack', what, remedy }]
}

/** @param configured `tls_cert`; empty: the self-signed one */
export function certificateFindings(stateDir: string, configured: string, now: Date): Finding[] {
  const file = configured || join(stateDir, 'tls', 'cert.pem')
  const pem = readOr(file)
  const about = 'certificate'
  if (pem === undefined) {
    if (configured === '')
      return [{ severity: 'note', about, what: 'none was made yet: that happens with the first token' }]
    return [{ severity: 'failure', about, what: `${file} cannot be read`, remedy: 'correct tls_cert, or unset it' }]
  }
  try {
    return [endFinding(file, new Date(new X509Certificate(pem).validTo), now, configured === '')]
  } catch {
    return [{ severity: 'failure', about, what: `${file} holds no PEM certificate`, remedy: 'replace it' }]
  }
}

export function endFinding(file: string, end: Date, now: Date, selfSigned: boolean): Finding {
  const days = Math.floor((end.getTime() - now.getTime()) / DAY_MS)
  const what = `${file} is valid until ${end.toISOString()} (${days} days)`
  if (days >= 30) return { severity: 'ok', about: 'certificate', what }
  const remedy = selfSigned
    ? 'restart stratumd after it has ended: it makes another with the same key'
    : 'replace the files: the agent takes them at once'
  return { severity: days < 0 ? 'failure' : 'warning', about: 'certificate', what, remedy }
}
