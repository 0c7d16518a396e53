/** Records of a cluster in memory, with a turn of the event loop for each call, as etcd would take one. */
import type { Records } from '../engine.ts'

interface Kept {
  value: string
  created: number
  revision: number
}

export function memoryRecords(): Records & { dump(): string } {
  const all = new Map<string, Kept>()
  let revision = 0
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  return {
    dump: () => JSON.stringify([...all]),
    async get(key) {
      await turn()
      const found = all.get(key)
      return found && { key, value: found.value, revision: found.revision }
    },
    async list(prefix) {
      await turn()
      return Array.from(all, ([key, { value, revision }]) => ({ key, value, revision })).filter(({ key }) =>
        key.startsWith(prefix),
      )
    },
    async transact(compares, ops) {
      await turn()
      const holds = compares.every((compare) => {
        const found = all.get(compare.key.toString())
        if ('mod_revision' in compare) return (found?.revision ?? 0) === compare.mod_revision
        return (found?.created ?? 0) === compare.create_revision
      })
      if (!holds) return false
      revision++
      for (const op of ops) {
        if ('request_put' in op) {
          const key = op.request_put.key.toString()
          all.set(key, { value: op.request_put.value.toString(), created: all.get(key)?.created ?? revision, revision })
        } else all.delete(op.request_delete_range.key.toString())
      }
      return true
    },
  }
}
