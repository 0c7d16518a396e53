/** What a soak is for: something was not as it had to be. */
export class Broken extends Error {
  override readonly name = 'Broken'
}
