// The chat templates' language without the words of its errors and the names of its tokens, 1.9 kB of the Worker, gzipped. Templates are
// compiled into vocabularies on Node (`firstlight vocab`), which has the words. wrangler.toml puts it in the library's place.

/** An error made of one text, with whatever is put into it; not one that passes on what a template says. */
const WORDS = /(throw new \w*Error)\((?:`(?:[^`$\\]|\\.|\$\{(?:[^{}`]|\{[^{}]*\}|`[^`]*`)*\})*`|"(?:[^"\\]|\\.)*")\s*\)/g

/** What the parser says of a token that is not the expected one. */
const EXPECTED = /(\bexpect\(TOKEN_TYPES\.\w+), "[^"]*"\)/g

/** The same module; its errors are what they are, and say nothing. */
export const wordless = (module) => module.replace(WORDS, '$1()').replace(EXPECTED, '$1)')

/** The same module; its kinds of tokens, which nobody outside looks at, are numbers and no properties of a frozen object of words. */
export function numbered(module) {
  const table = /^var TOKEN_TYPES = Object\.freeze\(\{\n([\s\S]*?)\n\}\);$/m.exec(module)
  if (table === null) throw new Error('scripts/trim-jinja.mjs: this version of the library keeps its kinds of tokens elsewhere')
  const names = Array.from(table[1].matchAll(/^ +(\w+): "\1"/gm), ([, name]) => name)
  const numberOf = (name) => {
    if (!names.includes(name)) throw new Error(`scripts/trim-jinja.mjs: nobody says what kind of token ${name} is`)
    // Not 0, which is false.
    return String(names.indexOf(name) + 1)
  }
  return module
    .replace(table[0], '')
    .replace(/\bTOKEN_TYPES\.(\w+)/g, (_, name) => numberOf(name))
    .replace(/(\btokens\[[^\]]+\]\.type [!=]== )"(\w+)"/g, (_, compared, name) => compared + numberOf(name))
}
