// Hono without what nobody here asks of it: mounting of other frameworks, middleware, reading of bodies and queries, answers of its own.
// They are methods, which no bundler can leave out, and 4 kB of the Worker, gzipped. wrangler.toml puts it in the library's place.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { changed } from './trim-changes.mjs'

/** File → members of its class. */
export const UNASKED = {
  'hono-base.js': ['mount', 'fire', 'request', 'route', 'basePath', '#clone', 'onError'],
  'context.js': ['event', 'executionCtx', 'render', 'setLayout', 'getLayout', 'setRenderer', 'header', 'status', 'set', 'get', 'var', 'body', 'json', 'html', 'redirect', '#newResponse', 'newResponse', 'text', 'res', 'notFound', 'finalized'],
  'request.js': [
    'query', 'queries', 'header', 'parseBody', '#cachedBody', 'json', 'text', 'arrayBuffer', 'bytes', 'blob', 'formData',
    'addValidatedData', 'valid', 'url', 'method', 'matchedRoutes', 'routePath',
  ],
}

/** File → text there and what takes its place: the first handler found answers, and Hono's own answers are a text and a status. */
const INSTEAD = {
  'hono-base.js': [
    [/(?<=matchResult\[0\]\.length) === 1/, ' > 0'],
    [/const composed = compose\([\s\S]*?\n\t\t\}\)\(\);\n/, 'return this.#notFoundHandler(c);\n'],
    [/\tif \("getResponse" in err\) \{\n[\s\S]*?\n\t\}\n/, ''],
    [/\t\tthis\.use = [\s\S]*?\n\t\t\};\n/, ''],
    [/, async \(\) => \{\n\t+c\.res = await this\.#notFoundHandler\(c\);\n\t+\}/, ''],
    [/\(c\.finalized \? c\.res : (.*?)\)\)\)/, '$1))'],
    [/const \{ strict, \.\.\.optionsWithoutStrict \} = options;\n(.*)\boptionsWithoutStrict\b/, '$1options'],
    [/\bstrict \?\? true \? (.*) : getPathNoStrict;/, '$1;'],
    // Routes have whole paths, and nobody asks which there are.
    [/(?<=^\t#addRoute\(method, path, handler)(?:.*\n)+?\t\tthis\.router\.add\(method, path, \[handler, r\]\);\n.*\n/m, ') {\n\t\tthis.router.add(method, path, [handler]);\n'],
    [/\bc\.text\((".*"), (\d+)\)/g, 'new Response($1, { status: $2, headers: { "content-type": "text/plain; charset=UTF-8" } })'],
  ],
}

/** A module's text without these members of its class. Throws when one is not there: another version, to be looked at anew. */
export function without(module, members) {
  return members.reduce((text, name) => {
    const member = new RegExp(`^\\t(?:(?:async |get |set )?${name}\\(.*\\) \\{\\n[\\s\\S]*?^\\t\\}|${name} = (?:.*;|.*\\{\\n[\\s\\S]*?^\\t\\};))\\n`, 'gm')
    if (text.search(member) < 0) throw new Error(`scripts/trim-hono.mjs: this version of Hono has no ${name} where it is looked for`)
    return text.replace(member, '')
  }, module)
}

/** `hono/hono-base` as one module that imports nothing. */
export async function trimmedHono() {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(import.meta.resolve('hono/hono-base'))],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    plugins: [{ name: 'unasked', setup: leaveOut }],
  })
  return outputFiles[0].text
}

function leaveOut({ onLoad }) {
  for (const [file, members] of Object.entries(UNASKED)) {
    onLoad({ filter: new RegExp(`[\\\\/]hono[\\\\/]dist[\\\\/]${file}$`) }, ({ path }) => ({ contents: changed(without(readFileSync(path, 'utf8'), members), INSTEAD[file] ?? [], 'scripts/trim-hono.mjs: this version of Hono') }))
  }
}
