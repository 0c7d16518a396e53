/** Asks the program `explain` of bpf/src/firewall.bpf.c which rule decides a packet. */
import { parseMac, parsePrefix } from '../../nft/text.ts'
import type { Program } from '../object.ts'
import { runProgram } from '../test_run.ts'
import { deviceName } from './devices.ts'
import type { FilterPacket, FilterVerdict } from './filter.ts'
import { macWords } from './image.ts'

/** struct question: what stands where. The packet is a struct filter_packet4 or 6. */
const FAMILY_AT = 12
const PACKET_AT = 16
const DEVICE_AT = 64
const QUESTION_BYTES = 80
/** XDP refuses frames that are shorter than Ethernet's smallest, and so long is the question anyway. */
const TCP = 6
const UDP = 17

/** @throws RangeError for what is no packet; KernelError */
export async function explain(program: Program, packet: FilterPacket): Promise<FilterVerdict> {
  const { retval, dataOut } = await runProgram(program.fd, { data: question(packet) })
  if (retval !== 0) throw new Error('the classifier did not understand the question')
  const id = Number(dataOut.readBigUInt64LE(0))
  return { ...(id !== 0 && { id }), accept: dataOut.readUInt32LE(8) !== 0, probes: dataOut.readUInt32LE(12) }
}

function question({ source, dest, protocol, sourcePort, destPort, interface: device, mac }: FilterPacket): Buffer {
  const [from, to] = [parsePrefix(source), parsePrefix(dest)]
  if (!from || !to || from.family !== to.family) throw new RangeError('source, dest: must be addresses of one family')
  const out = Buffer.alloc(QUESTION_BYTES)
  out.writeUInt32LE(from.family, FAMILY_AT)
  out.set([...from.bytes, ...to.bytes], PACKET_AT)
  const at = PACKET_AT + 2 * from.bytes.length
  const hasPorts = protocol === TCP || protocol === UDP
  out.writeUInt16LE(hasPorts ? sourcePort : 0, at)
  out.writeUInt16LE(hasPorts ? destPort : 0, at + 2)
  const address = parseMac(mac)
  const [low, high] = address === undefined ? [0, 0] : macWords(address)
  out.writeUInt32LE(low, at + 4)
  out.writeUInt16LE(high, at + 8)
  out.writeUInt8(address === undefined ? 0 : 1, at + 10)
  out.writeUInt8(protocol, at + 11)
  deviceName.encode(out, DEVICE_AT, device)
  return out
}
