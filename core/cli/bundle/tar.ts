/** Files as one tar archive: POSIX.1-2001 pax §"ustar Interchange Format". */

export interface Packed {
  /** At most 100 bytes. */
  name: string
  content: Buffer
}

const BLOCK = 512

/** @throws RangeError when a name or a file is too long for the format */
export function tar(files: readonly Packed[], time: Date): Buffer {
  const parts = files.flatMap(({ name, content }) => [
    header(name, content.length, time),
    content,
    padding(content.length),
  ])
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)])
}

const padding = (size: number) => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK)

function header(name: string, size: number, time: Date): Buffer {
  const block = Buffer.alloc(BLOCK)
  if (Buffer.byteLength(name) > 100) throw new RangeError(`too long for tar: ${name}`)
  if (size >= 8 ** 11) throw new RangeError(`too large for tar: ${name}`)
  const octal = (value: number, at: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, length, 'latin1')
  block.write(name, 0)
  octal(0o600, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(size, 124, 12)
  octal(Math.floor(time.getTime() / 1000), 136, 12)
  block.write('0', 156)
  block.write('ustar\u000000', 257, 'latin1')
  // The sum of the header, its own place taken as blanks.
  block.fill(' ', 148, 156)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 8, 'latin1')
  return block
}
