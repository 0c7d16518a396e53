import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/**
 * Bytes that this process holds in V8's heap (texts) and outside of it (buffers), once what nobody holds is gone: how long
 * garbage stays is for each Node to decide. Takes some tens of ms.
 */
export function heldBytes(): number {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
