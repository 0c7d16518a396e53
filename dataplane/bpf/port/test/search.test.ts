/** The search for silent guests: what a moment of it costs does not depend on how many there are. */
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { binding } from '../entries.ts'
import { openSearch } from '../search.ts'

requireRoot(t)

const MANY = 50_000
const silent = (n: number) => {
  const address = `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`
  return binding('t', {
    net: 1,
    address,
    mac: `02:00:00:${n
      .toString(16)
      .padStart(6, '0')
      .replace(/..(?=.)/g, '$&:')}`,
    routed: [],
  })
}
const soon = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

t.test('a moment looks at few of many, and goes on where the last one ended', async (t) => {
  const looks: string[] = []
  const problems: unknown[] = []
  let moments = 0
  const search = openSearch({
    found({ key }) {
      looks.push(key)
      return false
    },
    // Asked once a moment.
    openPorts() {
      moments++
      return []
    },
    onProblem: (error) => problems.push(error),
  })
  t.teardown(() => search.close())
  for (let n = 0; n < MANY; n++) search.begin(silent(n))
  const signal = AbortSignal.timeout(10_000)
  while (moments < 3) {
    signal.throwIfAborted()
    await soon(20)
  }
  t.ok(looks.length > 0 && looks.length <= 128 * moments, `${looks.length} looks in ${moments} moments`)
  t.equal(new Set(looks).size, looks.length, 'each once, before any is looked at again')
  t.same(problems, [])
})

t.test('what is found is not looked for any more', async (t) => {
  const looks = new Map<string, number>()
  const search = openSearch({
    found: ({ key }) => {
      looks.set(key, (looks.get(key) ?? 0) + 1)
      return key === silent(1).key
    },
    openPorts: () => [],
    onProblem: (error) => t.fail(String(error)),
  })
  t.teardown(() => search.close())
  search.begin(silent(1))
  search.begin(silent(2))
  const signal = AbortSignal.timeout(10_000)
  while ((looks.get(silent(2).key) ?? 0) < 3) {
    signal.throwIfAborted()
    await soon(20)
  }
  t.equal(looks.get(silent(1).key), 1)
})
