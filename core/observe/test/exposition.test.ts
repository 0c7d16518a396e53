/** The reader of the text format that the other tests rely on finds what Prometheus would refuse. */
import t from 'tap'
import { readExposition } from '../../../test/exposition.ts'

const family = (type: string, ...lines: string[]) =>
  ['# HELP x What it is.', `# TYPE x ${type}`, ...lines, ''].join('\n')

t.test('what the format allows is read', async (t) => {
  const { value, series, families } = readExposition(
    family('counter', 'x{a="1",b="q\\"\\\\\\n"} 3', 'x{a="2",b=""} +Inf') +
      '\n# HELP y Two words.\n# TYPE y gauge\ny -1.5e3\n',
  )
  t.same(series('x', { a: '1' })[0]?.labels, { a: '1', b: 'q"\\\n' })
  t.equal(value('x', { a: '2' }), Number.POSITIVE_INFINITY)
  t.equal(value('y'), -1500)
  t.equal(value('z'), undefined)
  t.same(families.get('y'), {
    name: 'y',
    help: 'Two words.',
    type: 'gauge',
    series: [{ name: 'y', labels: {}, value: -1500 }],
  })
  t.throws(() => value('x'), /2 series/)
})

t.test('what is against the format is found', async (t) => {
  const bad: [string, string, RegExp][] = [
    ['a last line without an end', '# HELP x y', /not ended/],
    ['a sample without its family', 'x 1\n', /outside its family/],
    ['a sample of another family', family('gauge', 'y 1'), /outside its family/],
    ['a type that does not exist', family('count', 'x 1'), /no such type/],
    ['a family without type', '# HELP x y\n', /no type/],
    ['a family in two places', `${family('gauge', 'x 1')}${family('gauge', 'x{a="1"} 1')}`, /twice/],
    ['the same series twice', family('gauge', 'x{a="1",b="2"} 1', 'x{b="2",a="1"} 1'), /twice/],
    ['a value that is no number', family('gauge', 'x one'), /not a number/],
    ['a label without quotes', family('gauge', 'x{a=1} 1'), /bad labels/],
    ['a label twice', family('gauge', 'x{a="1",a="2"} 1'), /bad labels/],
    ['a name with a dash', family('gauge', 'x-y 1'), /not a sample/],
    ['a comment of neither kind', '# EOF\n', /not a HELP or TYPE/],
    ['a counter below 0', family('counter', 'x -1'), /below 0/],
    [
      'buckets that fall',
      family('histogram', 'x_bucket{le="1"} 2', 'x_bucket{le="+Inf"} 1', 'x_sum 1', 'x_count 1'),
      /no histogram/,
    ],
    ['buckets without +Inf', family('histogram', 'x_bucket{le="1"} 1', 'x_sum 1', 'x_count 1'), /no histogram/],
    ['a count that is not +Inf', family('histogram', 'x_bucket{le="+Inf"} 1', 'x_sum 1', 'x_count 2'), /no histogram/],
  ]
  for (const [what, text, problem] of bad) t.throws(() => readExposition(text), problem, what)
})
