// dist/js-yaml.mjs: js-yaml so that a bundler can leave out what nobody imports. Its module makes every schema and the whole
// writer's tables as it loads, which no bundler dares to drop: 2.6 kB of the Worker, gzipped. wrangler.toml puts it in js-yaml's place.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A variable of the module whose value is a call, a property or an object literal: of one line, or up to the line that closes it. */
const COMPUTED = /^((?:var|let|const) [\w$]+ = )((?:new )?[\w$.]+\(.*\)|[\w$]+\.[\w$]+|(?:(?:new )?[\w$.]+\(.*[[{]|\{)$[\s\S]*?^[\]})]+);$/gm

/** The same module, each computed variable marked as free of side effects. */
export const trimmable = (module) => module.replace(COMPUTED, '$1/* @__PURE__ */ (() => ($2))();')

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const dist = new URL('../dist/', import.meta.url)
  mkdirSync(dist, { recursive: true })
  writeFileSync(new URL('js-yaml.mjs', dist), trimmable(readFileSync(fileURLToPath(import.meta.resolve('js-yaml')), 'utf8')))
}
