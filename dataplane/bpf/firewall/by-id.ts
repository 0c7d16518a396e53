/** Maps by their ids, which is how a map of maps tells what is in it. */
import { checked, libbpf } from '../libbpf.ts'

/** enum bpf_cmd of linux/bpf.h */
const BPF_MAP_GET_FD_BY_ID = 14

/** A descriptor of the map with this id, for the caller to close. @throws KernelError ENOENT when there is none */
export async function openById(id: number): Promise<number> {
  const attributes = Buffer.alloc(16)
  attributes.writeUInt32LE(id, 0)
  return checked(await libbpf().bpf(BPF_MAP_GET_FD_BY_ID, attributes), `open the map with id ${id}`)
}
