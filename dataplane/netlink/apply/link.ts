/**
 * Links that the agent makes. Their alias, `stratum:<area>`, tells ours; the kernel takes none with a creation. So a
 * link is born into a group of its own, whose links then get the alias, in the same send: a kill cannot come between,
 * and where the creation failed there is no link in that group.
 */
import { randomInt } from 'node:crypto'
import type { KernelError } from '../../libc.ts'
import { appendDevice } from '../device.ts'
import { areaOf, type LinkEntry, linksOf } from '../entries.ts'
import { createLink, deleteLink, setLink } from '../link.ts'
import { changeGroup, markOf } from '../link-detail.ts'
import type { Message } from '../wire.ts'
import { Journal, takeBack } from './journal.ts'
import { birthGroups, linkChange, writeSysctls } from './link-change.ts'
import { foreign, noSuchLink, type Refused, refusedBy, refusedFor } from './refusal.ts'
import type { Scene } from './scene.ts'
import { type Standing, standing } from './standing.ts'

/** A bridge without ports that had some; no link can be made with it. */
const NO_MAC = '00:00:00:00:00:00'

/** Makes the link or, where the agent has made it (`before`), changes it. Resolves to the refusal, if any. */
export async function setsLink(scene: Scene, entry: LinkEntry, before?: LinkEntry): Promise<Refused | undefined> {
  const journal = new Journal()
  scene.journal.add(() => journal.rollback())
  const missing = linksOf(entry).find((name) => scene.link(name) === undefined)
  const refused =
    missing === undefined ? await makesOrChanges(scene, entry, before, journal) : noSuchLink(entry, missing)
  if (refused) await journal.rollback()
  return refused
}

/** Removes it if it is ours still. The far end of a pair goes with it, and whatever is on it. */
export async function removesLink(
  scene: Scene,
  entry: LinkEntry,
  journal = scene.journal,
): Promise<Refused | undefined> {
  const found = await standing(scene, entry)
  if (found === undefined) return undefined
  const [error] = await scene.netlink.request([deleteLink(found.detail.index)])
  if (error) return refusedBy(error, entry)
  scene.disturbed.add(entry.name)
  if (found.far) scene.disturbed.add(found.far.name)
  const old = asItStood(found, entry)
  journal.add(async () => {
    scene.forget()
    await scene.ask(linksOf(old))
    const refused = await makes(scene, old, new Journal())
    if (refused) throw new Error(refused.text)
  })
  return undefined
}

/** Down to what nobody had asked for; but a bridge's address and MTU follow its ports unless they are set. */
function asItStood({ entry: stood }: Standing, entry: LinkEntry): LinkEntry {
  if (stood.device.type !== 'bridge') return { ...stood, sysctls: entry.sysctls }
  const { mac, mtu, ...rest } = stood
  return {
    ...rest,
    sysctls: entry.sysctls,
    ...(entry.mtu !== undefined && mtu !== undefined && { mtu }),
    ...(entry.mac !== undefined && mac !== undefined && mac !== NO_MAC && { mac }),
  }
}

async function makesOrChanges(
  scene: Scene,
  entry: LinkEntry,
  before: LinkEntry | undefined,
  journal: Journal,
): Promise<Refused | undefined> {
  if (before === undefined) return makes(scene, entry, journal)
  const found = await standing(scene, entry)
  if (found === undefined) return scene.link(entry.name) ? foreign(entry) : noSuchLink(entry, entry.name)
  if (linkChange(scene, found, entry) !== 'new') return settles(scene, entry, found, journal)
  const refused = await removesLink(scene, before, journal)
  return refused ?? makes(scene, entry, journal)
}

async function makes(scene: Scene, entry: LinkEntry, journal: Journal): Promise<Refused | undefined> {
  const area = areaOf(entry.key)
  const owner = scene.owner(entry)
  const [group, farGroup] = birthGroups(owner, randomInt(0x8000))
  const { name, device, mtu, mac } = entry
  // A bridge that is made with an MTU still takes that of its ports; one that is set later stays.
  const size = device.type === 'bridge' ? undefined : mtu
  const settings = { name, group, ...(mac !== undefined && { mac }), ...(size !== undefined && { mtu: size }) }
  const links = { index: (other: string) => scene.link(other)?.index }
  const messages: Message[] = [
    createLink(device.type, settings, (data) => appendDevice(data, device, links, { mtu, group: farGroup })),
    changeGroup(group, { alias: markOf(area) }),
    ...(device.type === 'veth' ? [changeGroup(farGroup, { alias: markOf(area, true) })] : []),
  ]
  const [error, ...unmarked] = await scene.netlink.request(messages)
  if (error) return explained(scene, error, entry)
  journal.add(() => takeBack(scene.netlink, [deleteLink(name)]))
  const reason = unmarked.find((it) => it !== undefined)
  if (reason) return refusedBy(reason, entry)
  const found = await nudged(scene, entry)
  // What follows goes with the link itself.
  return found ? settles(scene, entry, found, new Journal()) : noSuchLink(entry, name)
}

/** A new bridge whose MTU is what it shall be already: it has to be set all the same, which takes a change. */
async function nudged(scene: Scene, entry: LinkEntry): Promise<Standing | undefined> {
  const found = await standing(scene, entry)
  if (found === undefined || entry.device.type !== 'bridge' || found.detail.mtu !== entry.mtu) return found
  await scene.netlink.request([setLink(found.detail.index, { mtu: entry.mtu - 1 })])
  return standing(scene, entry)
}

/** Brings a link to what its entry says, and looks whether the kernel took it all: some settings it ignores in silence. */
async function settles(
  scene: Scene,
  entry: LinkEntry,
  found: Standing,
  journal: Journal,
): Promise<Refused | undefined> {
  const change = linkChange(scene, found, entry)
  if (change === undefined) return undefined
  if (change === 'new') return ignored(entry, found)
  // Neighbours go with the address of their link, and much else when it goes down.
  const harsh = change.messages.length > 0 && (found.entry.mac !== entry.mac || !entry.up)
  if (harsh) scene.disturbed.add(entry.name)
  journal.add(async () => {
    await scene.ask(change.bridge === undefined ? [] : [change.bridge])
    await takeBack(scene.netlink, change.back())
    writeSysctls(change.oldSysctls)
  })
  try {
    // Before the link comes up, when some of them take effect.
    writeSysctls(change.sysctls)
  } catch (error) {
    return refusedFor(error, entry)
  }
  const errors = await scene.netlink.request(change.messages)
  const error = errors.find((it) => it !== undefined)
  if (error) return refusedBy(error, entry)
  const after = await standing(scene, entry)
  if (after === undefined) return noSuchLink(entry, entry.name)
  return linkChange(scene, after, entry) === undefined ? undefined : ignored(entry, after)
}

function ignored(entry: LinkEntry, { entry: { seen: _, ...stands } }: Standing): Refused {
  const text = `interface ${entry.name}: the kernel ignored a setting; it stands as ${JSON.stringify(stands)}`
  return { entry, code: 'EOPNOTSUPP', text }
}

/** Of a pair, either name may be taken. */
async function explained(scene: Scene, error: KernelError, entry: LinkEntry): Promise<Refused> {
  const peer = entry.device.type === 'veth' ? entry.device.peer : undefined
  if (error.code !== 'EEXIST' || peer === undefined || (await scene.fresh(entry.name))) return refusedBy(error, entry)
  return { entry, code: 'EEXIST', text: `interface ${peer} exists and is not ours` }
}
