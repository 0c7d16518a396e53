/**
 * The generation of this namespace's nftables ruleset: a number that every committed transaction raises by one, whoever
 * sent it (nf_tables_commit in net/netfilter/nf_tables_api.c). A refused one does not, nor do elements that expire or
 * that packets add.
 */
import { close, KernelError, receive, sendNow } from '../libc.ts'
import { bindNetlink, MSG_DONTWAIT, NETLINK_NETFILTER } from '../netlink/bind.ts'
import { decodeMessages, encodeMessages, NLM_F_REQUEST } from '../netlink/wire.ts'

/** linux/netfilter/nfnetlink.h and nf_tables.h: the subsystem in the upper byte of the message type. */
const NFT_MSG_NEWGEN = (10 << 8) | 15
const NFT_MSG_GETGEN = (10 << 8) | 16
/** struct nfgenmsg, then the header of the attribute NFTA_GEN_ID, which comes first. */
const ID_OFFSET = 4 + 4
const RECEIVE_BUFFER = 64 << 10

export interface Generation {
  /** The generation now; undefined when the kernel does not tell. Takes some 10 us and waits for no lock. */
  read(): number | undefined
  close(): void
}

/** Opens it for the network namespace of the calling thread. @throws KernelError */
export function openGeneration(): Generation {
  const fd = bindNetlink(NETLINK_NETFILTER, RECEIVE_BUFFER, [])
  const buffer = Buffer.alloc(4096)
  let sequence = 0
  let closed = false
  return {
    read() {
      // The number of a closed file may be another file's by now.
      if (closed) return undefined
      sequence = (sequence + 1) >>> 0
      const question = { type: NFT_MSG_GETGEN, flags: 0, payload: Buffer.alloc(4) }
      try {
        sendNow(fd, encodeMessages([question], sequence, NLM_F_REQUEST))
      } catch (error) {
        if (error instanceof KernelError) return undefined
        throw error
      }
      // The kernel answers inside send(2). What an earlier question left behind is passed over.
      for (;;) {
        const size = receive(fd, buffer, MSG_DONTWAIT)
        if (size <= 0) return undefined
        const answer = decodeMessages(buffer.subarray(0, size)).find((message) => message.sequence === sequence)
        if (answer === undefined) continue
        const known = answer.type === NFT_MSG_NEWGEN && answer.payload.length >= ID_OFFSET + 4
        return known ? answer.payload.readUInt32BE(ID_OFFSET) : undefined
      }
    },
    close() {
      if (closed) return
      closed = true
      close(fd)
    },
  }
}

/** The generation that one transaction of ours makes of `known`; 0 is left out. */
export const nextGeneration = (known: number): number => (known + 1) >>> 0 || 1
