/** Every row that another test proves names a test that is there. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { proven } from './proven.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..', '..')

t.test('the tests that prove attacks to fail are there', (t) => {
  for (const { by, what, file, title } of proven) {
    const path = join(ROOT, file)
    const titles = existsSync(path) ? titlesIn(readFileSync(path, 'utf8')) : []
    t.ok(
      titles.some((one) => title !== '' && one.includes(title)),
      `${by}: ${what}`,
      { file, title },
    )
  }
  t.end()
})

/** What follows `t.test(` or a function of the test's own that makes a test with a title. */
function titlesIn(source: string): string[] {
  return Array.from(source.matchAll(/\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1\s*,/g), ([, , title]) => title ?? '')
}
