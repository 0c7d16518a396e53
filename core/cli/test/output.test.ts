import t from 'tap'
import { textOn } from '../output.ts'

const ANSWER = 'a\tb\u001b[2J\u009b31m\u0007\r\u007f{"é":"\u2028\u202e\u2029"}\n'

t.test('a terminal obeys nothing that an answer says, and a pipe gets it as it is', async (t) => {
  const shown = (isTTY: boolean) => {
    let text = ''
    const write = (piece: string | Uint8Array) => {
      text += piece
      return true
    }
    textOn({ isTTY, write })(ANSWER)
    return text
  }
  t.equal(shown(true), 'a\tb?[2J?31m???{"é":"???"}\n')
  t.equal(shown(false), ANSWER)
})
