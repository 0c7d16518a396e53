import t from 'tap'
import { secondsIn } from '../duration.ts'

t.test('D25 a length of time is a number of seconds, minutes, hours or days', async (t) => {
  const lengths = { '0': 0, '90': 90, '90s': 90, '15m': 900, '3h': 10_800, '7d': 604_800, '007m': 420 }
  for (const [text, seconds] of Object.entries(lengths)) t.equal(secondsIn(text), seconds, text)
  const others = ['', 's', 'h3', '3 h', '3H', '1h30m', '-3h', '+3h', '1.5h', '3w', '3h\n', '9999999999999', '1e3', '٣h']
  for (const text of others) t.equal(secondsIn(text), undefined, JSON.stringify(text))
})
