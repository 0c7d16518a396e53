/**
 * A machine to install on: this one's file system under an overlay, so that what is written is gone afterwards, with its
 * own processes, run directory, bpf filesystem and network namespace. What a node must do without is taken away: compilers,
 * this checkout. Its service manager is a script that knows stratumd and nothing else.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { scratch } from '../build.ts'
import { type Netns, netns, type Scope } from '../netns.ts'

const CHECKOUT = join(import.meta.dirname, '..', '..', '..')

/** `$1`: an empty directory. Ends as the first process of the machine, which takes in orphans. */
const BOOT = `set -e
mount -t tmpfs -o size=1g machine "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" machine "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs sys sys
mount -t bpf bpf sys/fs/bpf
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs run run
mount -t tmpfs none ".$2"
rm -f usr/bin/clang* usr/bin/gcc usr/bin/g++ usr/bin/cc usr/bin/c++ usr/bin/make usr/bin/npm usr/bin/npx
rm -rf var/lib/stratum etc/stratum usr/sbin/policy-rc.d
mkdir -p run/systemd/system
echo booted
while :; do sleep 0.2; done`

/** What the maintainer scripts and the installer ask of systemd. */
const SYSTEMCTL = `#!/bin/sh
echo "$*" >>/run/systemctl.log
pid=$(cat /run/stratumd.pid 2>/dev/null || echo none)
link=/etc/systemd/system/multi-user.target.wants/stratumd.service
stop() {
  kill -TERM "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
}
start() {
  : >/run/stratumd.log
  UV_THREADPOOL_SIZE=16 setsid /usr/sbin/stratumd >/run/stratumd.log 2>&1 </dev/null &
  echo $! >/run/stratumd.pid
  until grep -q '"msg":"ready"' /run/stratumd.log; do
    kill -0 "$(cat /run/stratumd.pid)" 2>/dev/null || exit 1
    sleep 0.05
  done
}
case "$*" in
  *is-enabled*) if [ -L "$link" ] && [ -e "$link" ]; then echo enabled; else echo disabled; exit 1; fi ;;
  *is-active*) kill -0 "$pid" 2>/dev/null ;;
  *enable*stratumd.service*) ln -sf /lib/systemd/system/stratumd.service "$link" ;;
  *restart*stratumd.service*) stop; start ;;
  *stop*stratumd.service*) stop ;;
esac
`

export interface Machine {
  ns: Netns
  /** Runs a command as root; resolves with its exit status and what it said. */
  run(...command: string[]): Promise<{ status: number | null; out: string; err: string }>
  /** The same for what must succeed: resolves with standard output, less its last line end. */
  ok(...command: string[]): Promise<string>
  /** Command lines of the processes that run there, by id, without its first one and what it waits with. */
  processes(): Promise<Map<number, string>>
}

export async function machine(t: Scope, files: Readonly<Record<string, string>> = {}): Promise<Machine> {
  const ns = netns(t, 'm')
  const dir = scratch(t, 'machine')
  const child = ns.spawn('unshare', [
    ...['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'],
    ...['sh', '-c', BOOT, 'boot', dir, CHECKOUT],
  ])
  const said: string[] = []
  child.stderr?.on('data', (bytes: Buffer) => void said.push(bytes.toString()))
  await Promise.race([once(child.stdout ?? child, 'data'), once(child, 'exit')])
  if (child.exitCode !== null) throw new Error(`the machine did not boot: ${said.join('')}`)
  const first = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim()

  const run: Machine['run'] = async (...command) => {
    const inside = ['--target', first, '--mount', '--pid', 'chroot', join(dir, 'root'), ...command]
    const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
    const started = ns.spawn('nsenter', inside, { env: { PATH: path, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive' } })
    const texts = [started.stdout, started.stderr].map(async (stream) => {
      let text = ''
      for await (const part of stream ?? []) text += part
      return text
    })
    const ended = once(started, 'exit')
    const [out = '', err = ''] = await Promise.all(texts)
    const [status] = await ended
    return { status, out, err }
  }
  const ok: Machine['ok'] = async (...command) => {
    const { status, out, err } = await run(...command)
    if (status !== 0) throw new Error(`${command.join(' ')}: exit status ${status}\n${out}${err}`)
    return out.trimEnd()
  }
  const write = (path: string, content: string) =>
    ok('sh', '-c', 'rm -f "$1" && printf %s "$2" >"$1" && chmod 755 "$1"', 'write', path, content)
  await write('/usr/bin/systemctl', SYSTEMCTL)
  for (const [path, content] of Object.entries(files)) await write(path, content)
  return {
    ns,
    run,
    ok,
    async processes() {
      const lines = (await ok('ps', '-e', '-o', 'pid=,args=')).split('\n').map((line) => line.trim().split(/ +(.*)/))
      return new Map(
        lines
          .filter(([pid, args = '']) => pid !== '1' && !/^(sleep 0\.2|sh -c set -e mount|ps -e|\[)/.test(args))
          .map(([pid, args = '']) => [Number(pid), args]),
      )
    },
  }
}
