/** Flags of one command line. Records which of them were read, so that the others can be reported. */
export class Flags {
  readonly #given = new Map<string, string[][]>()
  readonly #read = new Set<string>()

  constructor(words: readonly string[]) {
    let values: string[] | null = null
    for (const word of words) {
      const flag = /^--([A-Za-z][\w-]*)(?:=([\s\S]*))?$/.exec(word)
      if (flag === null) values?.push(word)
      else values = this.#add(flag[1]!.replaceAll('_', '-'), flag[2])
    }
  }

  #add(name: string, value: string | undefined): string[] {
    const values = value === undefined ? [] : [value]
    this.#given.set(name, [...(this.#given.get(name) ?? []), values])
    return values
  }

  has(name: string): boolean {
    this.#read.add(name)
    return this.#given.has(name)
  }

  /** Values of each occurrence. */
  each(name: string): readonly (readonly string[])[] {
    this.#read.add(name)
    return this.#given.get(name) ?? []
  }

  all(name: string): readonly string[] {
    return this.each(name).flat()
  }

  one(name: string): string | null {
    return this.all(name).at(-1) ?? null
  }

  /** Values separated by commas. */
  list(name: string): readonly string[] {
    return (this.one(name) ?? '').split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
  }

  /** Flags that were not read, with their values. */
  unread(): readonly (readonly [name: string, value: string])[] {
    return [...this.#given].flatMap(([name, values]) =>
      this.#read.has(name) ? [] : [[name, values.flat().join(' ')] as const],
    )
  }
}
