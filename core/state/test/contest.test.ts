/** How long a repair waits when somebody undoes it again and again. */
import t from 'tap'
import { openContest, pauseMs } from '../contest.ts'

/** A contest and its time; `fight` is somebody who changes `key` whenever it is in order, looked at every second. */
function arena() {
  const time = { ms: 0 }
  const contest = openContest(() => time.ms)
  return {
    time,
    contest,
    /** Returns the seconds at which it is repaired. */
    fight(key: string, seconds: number): number[] {
      const repairs: number[] = []
      for (const end = time.ms + seconds * 1000; time.ms < end; time.ms += 1000) {
        if (contest.waits([key]) !== undefined) continue
        contest.repaired([key])
        repairs.push(time.ms / 1000)
      }
      return repairs
    },
  }
}

t.test('pauses double from a second to five minutes', async (t) => {
  t.same(
    Array.from({ length: 12 }, (_, at) => pauseMs(at + 1) / 1000),
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300],
  )
  const { fight } = arena()
  t.same(fight('a', 1200), [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111])
})

t.test('a quiet period ends it', async (t) => {
  const { fight, time } = arena()
  t.same(fight('a', 8), [0, 1, 3, 7])
  time.ms = 7000 + 15_900
  t.same(fight('a', 3), [22.9], 'quiet for less than twice the pause: the fight goes on where it was')
  time.ms = 24_900 + 32_100
  t.same(fight('a', 3), [57, 58], 'forgotten')
})

t.test('an object that nobody fights over does not wait, and takes along what does', async (t) => {
  const { fight, contest, time } = arena()
  fight('a', 10)
  const until = contest.waits(['a'])
  t.equal(until, 15_000)
  t.equal(contest.waits(['a', 'b']), undefined)
  t.equal(contest.waits(['b']), undefined)
  contest.repaired(['b'])
  t.equal(contest.waits(['a']), until, 'which makes nobody else wait longer')
  t.equal(contest.waits(['a', 'b']), time.ms + 1000, 'the first that may be repaired')
  t.equal(contest.waits([]), undefined)
})
