/** What drivers say of their devices, by the kernel's ethtool netlink (linux/ethtool_netlink.h, since Linux 5.6). */
import { KernelError } from '../libc.ts'
import { Attributes, Payload } from './attribute.ts'
import type { Netlink } from './socket.ts'

/** linux/genetlink.h: the family that tells the numbers of the others. */
const GENL_ID_CTRL = 0x10
const CTRL_CMD_GETFAMILY = 3
const CTRL_ATTR_FAMILY_ID = 1
const CTRL_ATTR_FAMILY_NAME = 2
/** struct genlmsghdr */
const HEADER_SIZE = 4

const ETHTOOL_MSG_LINKMODES_GET = 4
const ETHTOOL_A_LINKMODES_HEADER = 1
const ETHTOOL_A_LINKMODES_SPEED = 5
const ETHTOOL_A_HEADER_DEV_INDEX = 1
/** linux/ethtool.h: SPEED_UNKNOWN */
const SPEED_UNKNOWN = 0xffffffff

/** Number of the ethtool family, which differs from boot to boot; undefined where the kernel has none. */
export async function ethtoolFamily(generic: Netlink): Promise<number | undefined> {
  const payload = new Payload().raw(header(CTRL_CMD_GETFAMILY)).text(CTRL_ATTR_FAMILY_NAME, 'ethtool')
  try {
    const [answer] = await generic.ask({ type: GENL_ID_CTRL, flags: 0, payload: payload.finish() })
    if (answer === undefined) return undefined
    return new Attributes(answer.payload, HEADER_SIZE).bytes(CTRL_ATTR_FAMILY_ID)?.readUInt16LE(0)
  } catch (error) {
    if (error instanceof KernelError && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Speed of a device in Mbit/s; 0 where the driver does not know it, or the device is gone. */
export async function linkSpeed(generic: Netlink, family: number, index: number): Promise<number> {
  const payload = new Payload()
    .raw(header(ETHTOOL_MSG_LINKMODES_GET))
    .nest(ETHTOOL_A_LINKMODES_HEADER, (nested) => nested.u32(ETHTOOL_A_HEADER_DEV_INDEX, index))
  try {
    const [answer] = await generic.ask({ type: family, flags: 0, payload: payload.finish() })
    const speed = answer && new Attributes(answer.payload, HEADER_SIZE).u32(ETHTOOL_A_LINKMODES_SPEED)
    return speed === undefined || speed === SPEED_UNKNOWN ? 0 : speed
  } catch (error) {
    if (error instanceof KernelError && ['EOPNOTSUPP', 'ENODEV'].includes(error.code)) return 0
    throw error
  }
}

const header = (command: number): Buffer => Buffer.from([command, 1, 0, 0])
