/**
 * A start takes over the programs that the agent before has left, whatever became of that one, and never others. Frames pass
 * meanwhile. By both forms in which programs hang on devices. KILLS sets how often a start is killed, SEED when.
 */
import { once } from 'node:events'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { KEPT } from '../dataplane/bpf/bpffs.ts'
import { u32 } from '../dataplane/bpf/codec.ts'
import { checked, libbpf } from '../dataplane/bpf/libbpf.ts'
import { openLink } from '../dataplane/bpf/link.ts'
import { openMap } from '../dataplane/bpf/map.ts'
import { BPF_LAYOUT } from '../dataplane/numbers.ts'
import { MAIN } from './agent.ts'
import { chance } from './chance.ts'
import { inMachine } from './kernel-features.ts'
import { requireRoot } from './netns.ts'
import { machine, network, wipe } from './pins.ts'
import { SEED } from './seed.ts'
import { type Guest, type WorkloadNode, workloadNode } from './workload.ts'

requireRoot(t)

const KILLS = Number(process.env.KILLS ?? 6)
/** Programs of each part. */
const COUNTS = { port: 16, firewall: 3, lb: 10 } as const
type Part = keyof typeof COUNTS
const PARTS = Object.keys(COUNTS) as Part[]

/** Folder of the pins of a part. */
const pins = ({ ns }: WorkloadNode, part: Part): string =>
  join('/sys/fs/bpf', ns.name, part === 'port' ? '' : part, `v${BPF_LAYOUT}`)

/** Ids of the programs that packets meet on the ports and at the prerouting hook. */
function programs(node: WorkloadNode): string[] {
  const slots = openMap(join(pins(node, 'port'), 'programs'), u32, u32)
  const found = Array.from(slots.entries(), ([slot, id]) => `${slot} ${id}`)
  slots.close()
  const links = join(pins(node, 'firewall'), 'links')
  for (const name of readdirSync(links)) {
    const link = openLink(join(links, name))
    found.push(`${name} ${link.info().programId}`)
    void link.close()
  }
  return found.sort()
}

/** Pings all the while; how many echoes were sent, and how many came back. */
async function pinging(guest: Guest, addresses: readonly string[], meanwhile: () => Promise<unknown>) {
  let done = false
  const total = { sent: 0, lost: 0 }
  const ping = async (address: string) => {
    while (!done) {
      const child = guest.ns.spawn('ping', ['-n', '-q', '-c', '250', '-i', '0.004', '-W', '5', address])
      let said = ''
      child.stdout?.on('data', (bytes: Buffer) => {
        said += bytes.toString()
      })
      await once(child, 'close')
      const [, sent, received] = /(\d+) packets transmitted, (\d+) received/.exec(said) ?? []
      total.sent += Number(sent)
      total.lost += Number(sent) - Number(received)
    }
  }
  const work = meanwhile().finally(() => {
    done = true
  })
  await Promise.all([work, ...addresses.map(ping)])
  return total
}

/** Starts the agent, and kills it that much later. */
async function cutShort(node: WorkloadNode, ms: number): Promise<void> {
  await node.agent.kill('SIGKILL')
  // As startAgent does, but for waiting.
  const { stateDir, runDir } = node.agent
  const env = {
    PATH: process.env.PATH,
    STRATUM_STATE_DIR: stateDir,
    STRATUM_RUN_DIR: runDir,
    STRATUM_CONFIG: join(stateDir, 'panel.json'),
    STRATUM_BPF_DIR: `/sys/fs/bpf/${node.ns.name}`,
    ...form,
  }
  const child = node.ns.spawn(process.execPath, [MAIN], { env, stdio: 'ignore' })
  const gone = once(child, 'exit')
  await wait(ms)
  child.kill('SIGKILL')
  await gone
}

let form: Record<string, string> = {}

for (const attach of inMachine ? ['as the kernel can'] : ['tcx', 'clsact']) {
  const title = `state-01 ${attach}: a start verifies nothing that is as it was, and takes no other program for ours`
  t.test(title, { timeout: 120_000 + KILLS * 10_000 }, async (t) => {
    t.comment(`KILLS=${KILLS} SEED=${SEED}`)
    form = attach === 'clsact' ? { STRATUM_ATTACH: attach } : {}
    const random = chance(SEED)
    const node = await workloadNode(t, { env: form })
    const at = await network(node, 'first', '10.1.0.0/24')
    const [a, b] = [await machine(node, 'a', at), await machine(node, 'b', at)]
    await node.ok('POST', '/api/v1/rules', { action: 'drop', protocol: 'icmp', source_ip: '10.1.0.3' })
    const [algorithm, protocol] = ['round-robin', 'tcp']
    await node.ok('POST', '/api/v1/lb', { id: 'v', frontend_ip: '198.18.9.9', frontend_port: 80, algorithm, protocol })
    t.ok(a.reaches('10.1.0.3') && a.reaches('10.1.0.1'))
    const judged = (said: string) => t.notOk(b.pings('10.1.0.1'), `${said}: the rule drops`)
    judged('before')
    const kept = (part: Part) => readdirSync(join(pins(node, part), KEPT)).sort()
    const among = (before: readonly string[]) => programs(node).filter((it) => before.includes(it)).length

    const total = await pinging(a, ['10.1.0.3', '10.1.0.1'], async () => {
      const [first, balancer] = [programs(node), kept('lb')]
      t.equal(first.length, 10)
      await node.agent.restart()
      t.same(programs(node), first, 'taken over after an orderly end')
      judged('taken over')

      for (let kill = 0; kill < KILLS; kill++) await cutShort(node, 50 + random() * 800)
      await node.agent.restart()
      t.same(programs(node), first, 'taken over after kills')
      t.same(kept('lb'), balancer)
      judged('after kills')

      const [foreign = '', other = ''] = kept('port').filter((name) => /^port_(in|out)-/.test(name))
      await node.agent.kill()
      const fd = checked(libbpf().openPin(join(pins(node, 'port'), KEPT, other)), 'open a pin')
      rmSync(join(pins(node, 'port'), KEPT, foreign))
      checked(libbpf().pin(fd, join(pins(node, 'port'), KEPT, foreign)), 'forge a pin')
      await node.agent.restart()
      t.equal(among(first), 2, 'all programs of the ports are loaded anew where one is another')
      judged('one of the pins was forged')

      const second = programs(node)
      await node.agent.kill()
      for (const part of PARTS) rmSync(join(pins(node, part), KEPT), { recursive: true })
      for (let kill = 0; kill < KILLS; kill++) await cutShort(node, 300 + random() * 2000)
      await node.agent.restart()
      const third = programs(node)
      t.notOk(kept('lb').some((name) => balancer.includes(name)))
      t.equal(among(second), 2, 'loaded anew after an agent that kept none; links of the same build stay')
      for (const part of PARTS) t.equal(kept(part).length, COUNTS[part], 'kept once')
      await node.agent.restart()
      t.same(programs(node), third, 'and taken over from then on')
      judged('after an agent that kept none')
    })
    t.comment(`${total.sent} echoes`)
    t.ok(total.sent > 1000)
    t.equal(total.lost, 0, 'none lost')

    const last = programs(node)
    await node.agent.kill()
    wipe(node.ns, 'everything')
    await node.agent.restart()
    await node.guarded(a, b)
    t.equal(among(last), 0, 'loaded anew where all pins were gone')
    t.ok(a.reaches('10.1.0.3'))
    judged('all pins were gone')
  })
}
