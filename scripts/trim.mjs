// Libraries cut down to what the Worker needs. scripts/build-worker.mjs puts them in the libraries' places.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { trimmedHono } from './trim-hono.mjs'
import { kindless, numbered, OWN_NAMES as JINJA_NAMES, trimmable as trimmableJinja, wordless } from './trim-jinja.mjs'
import { shortened } from './trim-names.mjs'
import { numbered as numberedYaml, OWN_NAMES as YAML_NAMES, pictureless, readOnly, trimmable } from './trim-yaml.mjs'
import { trimmedZod } from './trim-zod.mjs'

const textOf = (name) => readFileSync(fileURLToPath(import.meta.resolve(name)), 'utf8')

/** Name to import → what makes its text. */
export const trimmed = {
  'js-yaml': async () => shortened(numberedYaml(readOnly(pictureless(trimmable(textOf('js-yaml'))))), YAML_NAMES),
  '@huggingface/jinja': async () => shortened(kindless(numbered(wordless(trimmableJinja(textOf('@huggingface/jinja'))))), JINJA_NAMES),
  'zod/mini': trimmedZod,
  'hono/hono-base': trimmedHono,
}
