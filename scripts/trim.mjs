// Libraries cut down to what the Worker needs, as files in dist/. wrangler.toml puts them in the libraries' places.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { trimmedHono } from './trim-hono.mjs'
import { kindless, numbered, OWN_NAMES as JINJA_NAMES, trimmable as trimmableJinja, wordless } from './trim-jinja.mjs'
import { shortened } from './trim-names.mjs'
import { numbered as numberedYaml, OWN_NAMES as YAML_NAMES, pictureless, readOnly, trimmable } from './trim-yaml.mjs'
import { trimmedZod } from './trim-zod.mjs'

const textOf = (name) => readFileSync(fileURLToPath(import.meta.resolve(name)), 'utf8')

/** Name to import → the file in dist/, and what makes its text. */
export const trimmed = {
  'js-yaml': { file: 'js-yaml.mjs', text: async () => shortened(numberedYaml(readOnly(pictureless(trimmable(textOf('js-yaml'))))), YAML_NAMES) },
  '@huggingface/jinja': { file: 'jinja.mjs', text: async () => shortened(kindless(numbered(wordless(trimmableJinja(textOf('@huggingface/jinja'))))), JINJA_NAMES) },
  'zod/mini': { file: 'zod.mjs', text: trimmedZod },
  'hono/hono-base': { file: 'hono-base.mjs', text: trimmedHono },
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const dist = new URL('../dist/', import.meta.url)
  mkdirSync(dist, { recursive: true })
  for (const { file, text } of Object.values(trimmed)) writeFileSync(new URL(file, dist), await text())
}
