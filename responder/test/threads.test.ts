/** What is refused to a process one of whose threads can still do more than it should. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { requireRoot } from '../../test/netns.ts'
import { tooMuch } from '../threads.ts'

const run = promisify(execFile)
const here = (path: string) => JSON.stringify(new URL(path, import.meta.url).href)

/** As /proc has it of a thread that kept two capabilities. */
const STATUS = `Name:\tnode
Pid:\t7
Uid:\t998\t998\t998\t998
Gid:\t997\t997\t997\t997
Groups:\t 
CapInh:\t0000000000002400
CapPrm:\t0000000000002400
CapEff:\t0000000000002400
CapBnd:\t0000000000000000
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
`
const with_ = (name: string, value: string) => STATUS.replace(new RegExp(`^${name}:.*$`, 'm'), `${name}:\t${value}`)

t.test('each thing that a thread may have kept is named', async (t) => {
  t.equal(tooMuch(STATUS, 0x2400), undefined)
  t.match(tooMuch(STATUS, 0), /^thread 7 \(node\) has CapPrm 0000000000002400$/, 'only the first thread may')
  for (const [name, value] of [
    ['Uid', '998\t998\t0\t998'],
    ['Gid', '0\t997\t997\t997'],
    ['Groups', '4 24'],
    ['CapPrm', '0000000000003400'],
    ['CapEff', '000001ffffffffff'],
    ['CapBnd', '0000000000000001'],
    ['CapAmb', '0000000000000400'],
    ['NoNewPrivs', '0'],
    ['Seccomp', '0'],
    ['CapEff', ''],
  ] as const)
    t.match(tooMuch(with_(name, value), 0x2400), new RegExp(`^thread 7 \\(node\\) has ${name} `), `${name} ${value}`)
})

t.test('without root nothing could be given up but what all may', async (t) => {
  const user = with_('CapBnd', '000001ffffffffff')
  t.equal(tooMuch(user, undefined), undefined)
  t.match(tooMuch(user.replace('Seccomp:\t2', 'Seccomp:\t0'), undefined), /Seccomp 0/)
})

t.test('ids that one thread alone has changed, as a bare system call does it, are not enough', async (t) => {
  if (!requireRoot(t)) return
  const script = `
    import koffi from 'koffi'
    import { readdirSync } from 'node:fs'
    import { confine } from ${here('../privileges.js')}
    import { withoutRings } from ${here('../rings.js')}
    import { openThreads } from ${here('../threads.js')}
    // Node keeps its standard output from what it becomes when it starts over.
    koffi.load(null).func('int fcntl(int fd, int command, int argument)')(1, 2, 0)
    withoutRings()
    const syscall = koffi.load(null).func('long syscall(long n, long a, long b, long c)')
    const libc = koffi.load(null).func('int setresgid(uint32_t a, uint32_t b, uint32_t c)')
    libc(65520, 65520, 65520)
    syscall(${process.arch === 'x64' ? 117 : 147}, 65520, 65520, 65520)
    const threads = openThreads()
    confine()
    const told = { uid: process.getuid(), why: '' }
    try { threads.sure(0) } catch (error) { told.why = error.message }
    process.stdout.write(JSON.stringify(told))`
  const node = [process.execPath, '--input-type=module', '-e', script]
  const kept = ['--clear-groups', '--inh-caps=-all,+setuid,+setgid', 'setpriv', '--bounding-set=-all']
  const { stdout } = await run('setpriv', [...kept, ...node])
  const { uid, why } = JSON.parse(stdout)
  t.equal(uid, 65_520, 'control: the first thread has changed it')
  t.match(why, /^privileges were not given up: thread \d+ \(.*\) has Uid 0\s+0\s+0\s+0/)
})
