// dist/jinja.mjs: the chat templates' language without the words of its errors, 1.4 kB of the Worker, gzipped. Templates are
// compiled into vocabularies on Node (`firstlight vocab`), which has the words. wrangler.toml puts it in the library's place.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** An error made of one text, with whatever is put into it; not one that passes on what a template says. */
const WORDS = /(throw new \w*Error)\((?:`(?:[^`$\\]|\\.|\$\{(?:[^{}`]|\{[^{}]*\}|`[^`]*`)*\})*`|"(?:[^"\\]|\\.)*")\s*\)/g

/** The same module; its errors are what they are, and say nothing. */
export const wordless = (module) => module.replace(WORDS, '$1()')

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const dist = new URL('../dist/', import.meta.url)
  mkdirSync(dist, { recursive: true })
  writeFileSync(new URL('jinja.mjs', dist), wordless(readFileSync(fileURLToPath(import.meta.resolve('@huggingface/jinja')), 'utf8')))
}
