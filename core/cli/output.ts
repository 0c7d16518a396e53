/** Where a verb's text goes. */

// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal would obey them
const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu

/** Writes to `output`: on a terminal with all but line ends and tabs that it would obey as question marks, elsewhere as it is. */
export const textOn =
  (output: Pick<NodeJS.WriteStream, 'isTTY' | 'write'>) =>
  (text: string): void =>
    void output.write(output.isTTY ? text.replace(OBEYED, '?') : text)
