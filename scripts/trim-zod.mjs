// Zod's smaller half (`zod/mini`) as far as the gateway asks for it: schemas that answer at once, in one direction, by `safeParse`. What waits
// for promises, encodes, coerces, remembers cycles or derives patterns hangs on names that are not here. wrangler.toml puts it in the library's place.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { changed } from './trim-changes.mjs'

/** All that a module of the Worker may import. */
export const ASKED = [
  'array', 'boolean', 'enum', 'gte', 'int', 'lte', 'maxLength', 'minLength', 'nullable', 'nullish', 'number', 'object', 'optional',
  'prefault', '_default', 'record', 'refine', 'regex', 'strictObject', 'string', 'union',
]

/** File → text there and what takes its place. */
const INSTEAD = {
  'core/schemas.js': [
    [/\b\w+ instanceof Promise\b/g, 'false'],
    [/\basyncResult \|\| /, ''],
    [/^ +let asyncResult;\n/m, ''],
    [/^ +if \(asyncResult\) \{\n[\s\S]*?\n {12}\}\n/m, ''],
    [/^ +const proms = \[\];\n/gm, ''],
    [/\bproms\.length \? Promise\.all\(proms\)\.then\(\(\) => payload\) : payload/g, 'payload'],
    [/^ +if \(proms\.length\) \{\n.*\n +\}\n/gm, ''],
    [/^ +if \(!proms\.length\)\n +return payload;\n +return Promise\.all\(proms\)\.then\(\(\) => \{\n +return payload;\n +\}\)/gm, 'return payload'],
    [/\bhandleCatchall\(proms, /g, 'handleCatchall('],
    [/^ +let async = false;\n(?= +const results = \[\];\n +for \(const option of def\.options\) \{\n +const result = option\._zod\.run\(\{\n +value: payload\.value,\n +issues: \[\],\n +\}, ctx\);\n +if \(false\) \{)/m, ''],
    [/^ +if \(!async\)\n( +return handleUnionResults\(.*\n) +return Promise\.all\(.*\n.*\n +\}\);\n/m, '$1'],
    [/^ +const handleCanaryResult = [\s\S]*?^ {8}\};\n/m, ''],
    [/\bctx(\??)\.direction === "backward"/g, 'false'],
    [/\bctx\?\.direction !== "backward"/g, 'true'],
    [/\bctx(\??)\.skipChecks\b/g, 'false'],
    [/\bctx\?\.abortEarly\b/g, 'false'],
    [/^ +const memo = core\.globalConfig\.memoizer;\n +memo\?\.attach\(inst\);\n/gm, ''],
    [/\bmemo \? memo\.alloc\(inst, payload, (.*), ctx\) : \1/g, '$1'],
    [/^ +if \(payload\.memo\)\n +return payload;\n/m, ''],
    [/, \{\n.*\n +get "~standard"\(\) \{[\s\S]*?\n\}\);/, ');'],
    [/^ +inst\._zod\.version = version;\n/m, ''],
    [/^ {4}inst\._zod\.pattern = .*;\n/gm, ''],
    [/^ {4}util\.defineLazyInternal\(inst, "(?:pattern|propValues)", \(zod\) => (?:\{\n[\s\S]*?^ {4}\}|.*)\);\n/gm, ''],
    [/^ +if \(def\.coerce\)\n +try \{\n.*\n +\}\n +catch \(_+\) \{ \}\n/gm, ''],
    // No record here has a closed list of keys: whoever makes one shall hear it.
    [/^ +const values = def\.keyType\._zod\.values;\n +if \(values && !def\.partial\) \{\n[\s\S]*?^ {8}\}\n {8}else \{\n/m, '        if (def.keyType._zod.values) throw new Error("scripts/trim-zod.mjs: records with listed keys are left out");\n        {\n'],
    [/^ +const checkNumericKey = [\s\S]*?^ {16}\}\n/m, ''],
    [/\bdef\.mode === "loose"/g, 'false'],
    [/\belse if \(values\) \{/, 'else if (false) {'],
    [/^ {12}let unrecognized;\n/gm, ''],
    [/^ {12}if \(unrecognized && unrecognized\.length > 0\) \{\n[\s\S]*?^ {12}\}\n/gm, ''],
    [/^ {4}util\.defineLazyInternal\(inst, "values", \(zod\) => (?:\{\n[\s\S]*?^ {4}\}|.*)\);\n/gm, ''],
    // What is no schema is told on Node, and no shape has symbols.
    [/^ {4}for \(const k of allKeys\) \{\n[\s\S]*?^ {4}\}\n/m, ''],
    [/^ +const ownSymbols = .*\n.*\n.*\n +const allKeys = .*\n/m, ''],
    [/^ +allKeys,\n +symbolKeys,\n/m, 'allKeys: keys,\n'],
    [/^ +const okeys = .*\n/m, ''],
    [/^ +numKeys: keys\.length,\n +optionalKeys: .*\n/m, ''],
    [/, core\.config\(\)\)/g, ')'],
  ],
  'core/core.js': [
    [/^ +const pp = .*\n +if \(pp\)\n +pp\(inst\);\n/m, ''],
    [/^ +const proto = _\.prototype;\n +for \(const k in proto\) \{\n[\s\S]*?^ {8}\}\n/m, ''],
    [/^ +const Parent = .*\n +class Definition .*\n +\}\n +Object\.defineProperty\(Definition, .*\n/m, ''],
    [/\bparams\?\.Parent \? newError\(Definition\) : this/, 'this'],
    [/^ +if \(params\?\.Parent && .*\n +return true;\n/m, ''],
    [/^ +Object\.defineProperty\(_, Symbol\.hasInstance, \{\n[\s\S]*?^ {4}\}\);\n +Object\.defineProperty\(_, "name", .*\n/m, ''],
    [/^\(_a = globalThis\)\.__zod_globalConfig .*\n/m, ''],
    [/(?<=^export const globalConfig = )globalThis\.__zod_globalConfig;$/m, '{};'],
    [/^let _E = .*\n/m, ''],
  ],
  'core/util.js': [
    [/^ +unwrapMessage\(config\.(?:customError|localeError)\?\.\(iss\)\) \?\?\n/gm, ''],
    [/^ +if \(params\?\.error !== undefined\)\n +throw new Error\("Cannot specify both .*\n/m, ''],
    [/(?<=^export const captureStackTrace = )\(.*\);$/m, 'null;'],
  ],
  // Of numbers with a format, whole ones; of texts with a format, those with a pattern.
  'core/checks.js': [
    [/^ +const isInt = .*\n/m, ''],
    [/\bisInt \? "int" : "number"/, '"int"'],
    [/\bif \(isInt\) \{/, '{'],
    [/^ +const \[minimum, maximum\] = util\.NUMBER_FORMAT_RANGES\[def\.format\];\n/m, ''],
    [/^ {8}if \(input < minimum\) \{\n[\s\S]*?^ {8}\}\n {8}if \(input > maximum\) \{\n[\s\S]*?^ {8}\}\n/m, ''],
    [/^ +note: "Integers must be .*\n/gm, ''],
    [/\bnumericOriginMap\[typeof payload\.value\] \?\? origin/g, '"number"'],
    [/^ +const origin = numericOriginMap\[typeof def\.value\];\n/gm, ''],
    [/\btypeof def\.value === "object" \? def\.value\.getTime\(\) : def\.value/g, 'def.value'],
    [/(?<=\$constructor\("\$ZodCheckRegex", \(inst, def\) => \{\n +)\$ZodCheckStringFormat\.init/, '$ZodCheck.init'],
  ],
  'core/parse.js': [
    [/\b\w+ instanceof Promise\b/g, 'false'],
    // Who asks for the error asks for its issues.
    [/\bnew Err\((issues\.map\(.*), core\.config\(\)\)\)\)/, 'Object.assign(new Error(), { issues: $1)) })'],
    [/\bfailure\(_Err, /g, 'failure('],
    [/\bfailure\(Err, /, 'failure('],
    [/^(export const safeParse = .*)\berrors\.\$ZodRealError\b/m, '$1'],
  ],
  'mini/schemas.js': [
    [/^ +if \(!inst\._zod\)\n +throw new Error\("Uninitialized .*\n/m, ''],
    [/^ +get with\(\) \{\n.*\n +\},\n +set with\(.*\n.*\n +\},\n/m, ''],
    [/^ +parse\(data, params\) \{\n.*\n +\},\n/m, ''],
    [/^ +parseAsync\(data, params\) \{\n.*\n +\},\n/m, ''],
    [/^ +safeParseAsync\(data, params\) \{\n.*\n +\},\n/m, ''],
    [/^ +brand\(\) \{\n.*\n +\},\n/m, ''],
    [/^ +register\(reg, meta\) \{\n.*\n.*\n +\},\n/m, ''],
    [/^ +apply\(fn, \.\.\.args\) \{\n.*\n +\},\n/m, ''],
  ],
}

/** `zod/mini` as one module that imports nothing. */
export async function trimmedZod() {
  const { outputFiles } = await build({
    stdin: { contents: `export { ${ASKED.join(', ')} } from 'zod/mini'`, resolveDir: fileURLToPath(new URL('..', import.meta.url)) },
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    minifySyntax: true,
    plugins: [{ name: 'unasked', setup: leaveOut }],
  })
  return outputFiles[0].text
}

function leaveOut({ onLoad }) {
  for (const [file, changes] of Object.entries(INSTEAD)) {
    onLoad({ filter: new RegExp(`[\\\\/]zod[\\\\/]v4[\\\\/]${file.replace('/', '[\\\\/]')}$`) }, ({ path }) => ({ contents: changed(readFileSync(path, 'utf8'), changes, 'scripts/trim-zod.mjs: this version of Zod') }))
  }
}
