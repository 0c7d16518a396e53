/** Every link of a namespace, ours or not, by name and by number. */

export interface LinkState {
  index: number
  up: boolean
}

export class LinkTable {
  #links = new Map<string, LinkState>()
  #names = new Map<number, string>()

  get(name: string): LinkState | undefined {
    return this.#links.get(name)
  }

  nameOf(index: number | undefined): string | undefined {
    return index === undefined ? undefined : this.#names.get(index)
  }

  put(name: string, state: LinkState): void {
    this.#links.set(name, state)
    this.#names.set(state.index, name)
  }

  remove(name: string, index: number): void {
    this.#names.delete(index)
    this.#links.delete(name)
  }

  /** Takes over what there is, and tells the names of which something is another now. */
  replace(links: readonly ({ name: string } & LinkState)[]): string[] {
    const before = this.#links
    this.#links = new Map(links.map(({ name, index, up }) => [name, { index, up }]))
    this.#names = new Map(links.map(({ name, index }) => [index, name]))
    const others = links.filter(
      ({ name, index, up }) => before.get(name)?.index !== index || before.get(name)?.up !== up,
    )
    return [...others.map(({ name }) => name), ...[...before.keys()].filter((name) => !this.#links.has(name))]
  }
}
