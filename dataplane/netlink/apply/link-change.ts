/** What leads a link from how it stands to what its entry says, and back. */
import { confValue, hasConf, writeConf } from '../devconf.ts'
import { appendChange, type Device, deviceChange } from '../device.ts'
import type { LinkEntry } from '../entries.ts'
import { type LinkSettings, setLink } from '../link.ts'
import { changeKind, setIsolated, setPortCost } from '../link-detail.ts'
import type { Message } from '../wire.ts'
import type { Scene } from './scene.ts'
import type { Standing } from './standing.ts'

export interface LinkChange {
  messages: Message[]
  /** Asked for when they are sent, with `bridge` known to the scene: it may be made anew before. */
  back: () => Message[]
  bridge: string | undefined
  sysctls: LinkEntry['sysctls']
  oldSysctls: LinkEntry['sysctls']
}

interface Half {
  messages: Message[]
  back: () => Message[]
}

/** Undefined when nothing is to be done, `new` when the kernel cannot change the link in place. */
export function linkChange(scene: Scene, found: Standing, wanted: LinkEntry): LinkChange | 'new' | undefined {
  const change = deviceChange(found.entry.device, wanted.device)
  if (change === 'new') return 'new'
  const halves = [
    ...(change === 'settings' ? kindChange(scene, found, wanted.device) : []),
    ...nearChange(scene, found, wanted),
    ...isolation(found, wanted),
    ...farChange(found, wanted),
  ]
  const value = (path: string) => confValue(found.detail.conf, path, wanted.name)
  const sysctls = wanted.sysctls.filter(([path, wish]) => !hasConf(found.detail.conf, path, wanted.name, wish))
  if (halves.length + sysctls.length === 0) return undefined
  return {
    messages: halves.flatMap(({ messages }) => messages),
    back: () => halves.toReversed().flatMap(({ back }) => back()),
    bridge: found.bridge,
    sysctls,
    oldSysctls: sysctls.flatMap(([path]) => {
      const old = value(path)
      return old === undefined ? [] : [[path, old] as const]
    }),
  }
}

/** Writes the files in the namespace of this process. Throws the error of the file. */
export function writeSysctls(sysctls: LinkEntry['sysctls']): void {
  for (const [path, value] of sysctls) writeConf(path, value)
}

function kindChange(scene: Scene, { detail, entry, far }: Standing, device: Device): Half[] {
  if (device.type === 'veth') {
    if (far?.mac === undefined || device.peerMac === undefined) return []
    const { index, mac } = far
    return [{ messages: [setLink(index, { mac: device.peerMac })], back: () => [setLink(index, { mac })] }]
  }
  const links = { index: (name: string) => scene.link(name)?.index }
  const change = (to: Device, from: Device) =>
    changeKind(detail.index, to.type, (data) => appendChange(data, to, links, from))
  return [{ messages: [change(device, entry.device)], back: () => [change(entry.device, device)] }]
}

function nearChange(scene: Scene, found: Standing, wanted: LinkEntry): Half[] {
  const { detail, entry, bridge } = found
  const to: LinkSettings = {}
  const from: LinkSettings = {}
  if (wanted.mtu !== undefined && wanted.mtu !== detail.mtu) [to.mtu, from.mtu] = [wanted.mtu, detail.mtu]
  if (wanted.mac !== undefined && wanted.mac !== detail.mac) {
    to.mac = wanted.mac
    if (detail.mac !== undefined) from.mac = detail.mac
  }
  if (wanted.up !== detail.up && !risesIsolated(found, wanted)) [to.up, from.up] = [wanted.up, detail.up]
  if (isBirthGroup(detail.group)) [to.group, from.group] = [0, detail.group]
  const moves = wanted.master !== entry.master
  if (moves) {
    to.master = indexOf(scene, wanted.master)
  }
  if (Object.keys(to).length === 0) return []
  const { index, cost } = detail
  const mark = moves && cost !== undefined && scene.areas.has(cost) ? [setPortCost(index, cost)] : []
  const back = () => [setLink(index, { ...from, ...(moves && { master: indexOf(scene, bridge) }) }), ...mark]
  return [{ messages: [setLink(index, to)], back }]
}

/** Nothing passes by a port that shall be isolated before it is. A port that moves is not, whatever it was. */
function isolation(found: Standing, wanted: LinkEntry): Half[] {
  const { detail, entry } = found
  const { index } = detail
  const now = wanted.master === entry.master && entry.isolated === true
  const wish = wanted.isolated ?? now
  const rises = risesIsolated(found, wanted)
  return [
    ...(wish === now ? [] : [{ messages: [setIsolated(index, wish)], back: () => [setIsolated(index, now)] }]),
    ...(rises ? [{ messages: [setLink(index, { up: true })], back: () => [setLink(index, { up: false })] }] : []),
  ]
}

const risesIsolated = ({ detail }: Standing, { up, isolated }: LinkEntry): boolean =>
  isolated === true && up && !detail.up

/** What a port is given for its bridge; 0 is none. */
function indexOf(scene: Scene, bridge: string | undefined): number {
  return bridge === undefined ? 0 : (scene.link(bridge)?.index ?? 0)
}

/** The far end of a pair is up when the near one is, and has its MTU. */
function farChange({ far }: Standing, wanted: LinkEntry): Half[] {
  if (far === undefined) return []
  const to: LinkSettings = {}
  const from: LinkSettings = {}
  if (wanted.mtu !== undefined && wanted.mtu !== far.mtu) [to.mtu, from.mtu] = [wanted.mtu, far.mtu]
  if (wanted.up !== far.up) [to.up, from.up] = [wanted.up, far.up]
  if (isBirthGroup(far.group)) [to.group, from.group] = [0, far.group]
  if (Object.keys(to).length === 0) return []
  return [{ messages: [setLink(far.index, to)], back: () => [setLink(far.index, from)] }]
}

/** A group that a link was born into, see {@link birthGroups}. */
function isBirthGroup(group: number): boolean {
  return group >>> 24 === BIRTH
}

const BIRTH = 0x73

/**
 * "s", the owner's number, and a number that no other birth has (`random`, below 0x8000): groups that nobody else is in, one for
 * each end. Were both in one, either end would get the mark of the other.
 */
export function birthGroups(owner: number, random: number): [near: number, far: number] {
  const near = ((BIRTH << 24) | (owner << 16) | (random << 1)) >>> 0
  return [near, near + 1]
}
