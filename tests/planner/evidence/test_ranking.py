"""What defines a name, by its line, in languages that the planner does not know; short forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.definitions import defined
from planner.evidence.passages import of_file
from planner.evidence.ranking import ranked
from planner.passage import Passage


def names(text: str) -> list[str]:
    lines = text.count("\n") + 1
    return list(defined(Passage(source="file", first=1, last=lines, text=text)))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("async def run(self) -> None:", "run"),
        ("class Depot(Store):", "Depot"),
        ("self.max_retries = 5", "max_retries"),
        ("public final class Depot extends Store implements Closeable {", "Depot"),
        ("private static final int MAX_SIZE = 3;", "MAX_SIZE"),
        ("public void onReceive(Context context, Intent intent) {", "onReceive"),
        ("fun load(url: String): Depot {", "load"),
        ("export const produce: Produce = (base) => {", "produce"),
        ("  produce(base) {", "produce"),
        ("interface Produce {", "Produce"),
        ("type Server struct {", "Server"),
        ("func (s *Server) Start(ctx context.Context) error {", "Start"),
        ("pub(crate) const DEFAULT_LIMIT: u8 = 200;", "DEFAULT_LIMIT"),
        ("struct depot {", "depot"),
        ("#define KEEPALIVE_INTERVAL 15 /* seconds */", "KEEPALIVE_INTERVAL"),
        ("depotContext *depotConnect(const char *ip, int port) {", "depotConnect"),
        ("void Depot::close(int how) {", "close"),
        ("timeout: 30", "timeout"),
        ("defmodule Depot.Loader do", "Loader"),
        ("def load do", "load"),
        ("function Depot:load (key)", "load"),
        ("function M.load(key)", "load"),
        ("fun String.toDepot(size: Int): Depot {", "toDepot"),
        ("CREATE TABLE public.depots (", "depots"),
        ("load :: Path -> IO Depot", "load"),
        ("  - name: depot", "name"),
        ("module Depot", "Depot"),
        ("CREATE TABLE depots", "depots"),
    ],
)
def test_a_line_defines_the_name_that_it_is_about(line: str, name: str) -> None:
    assert names(line) == [name]


@pytest.mark.parametrize(
    "line",
    [
        "    return keepAlive(c, INTERVAL);",
        "    await fetch_data(x)",
        "    depot.close(now)",
        "  close_it(now);",
        "        DEFAULT_LIMIT,",
        "if (max_size == limit) {",
        "else if (is_open) {",
        "from store import Depot",
        "The parser reads its_limit once in a run",
        "    :param close_it: whether to close it",
        "     * @param close_it whether to close it",
        " * - On iOS; this opens the depot",
        "-- of the depot. If in doubt, DO NOT USE THIS.",
        "     Defaults to 20 messages",
        "is used by default",
        "From a Depot:",
        "Install with NPM: see below",
        "assert_equal Depot.load(key), 3",
        "\tMaxTries int",
        "\tdepot    *Depot",
    ],
)
def test_a_use_defines_nothing(line: str) -> None:
    assert names(line) == []


DEFINITIONS = [
    # Python
    ("    async def run(self) -> None:", "run"),
    ("class Depot(Store[int]):", "Depot"),
    ("MAX_SIZE: int = 3", "MAX_SIZE"),
    ("def parse[T](text: str) -> T:", "parse"),
    ("    match = PATTERN.search(text)", "match"),
    # TypeScript
    ("export async function load<T>(path: string): Promise<T> {", "load"),
    ("  private cache: Map<string, number> = new Map();", "cache"),
    ("  load(path: string): Promise<void> {", "load"),
    ("class LoadError extends Error {}", "LoadError"),
    ("  limit?: number;", "limit"),
    ("  readonly limit?: string;", "limit"),
    ("  private cache!: Cache;", "cache"),
    ("export const Card: React.FC<Props> = ({ title }) => {", "Card"),
    # Java
    ("    public Optional<User> findUser(Long id) {", "findUser"),
    ("    List<User> all() {", "all"),
    ("    List<User> findAll();", "findAll"),
    ("    public String[] names() {", "names"),
    ("    private final Map<String, List<Integer>> counts = new HashMap<>();", "counts"),
    ("    protected <T extends Item> List<T> every(Class<T> kind) {", "every"),
    ("    public void delete(Long id) {", "delete"),
    ("enum Color { RED }", "Color"),
    ("public class Box<T> extends Base<T> {", "Box"),
    ("class BufferHandler extends AbstractHandler", "BufferHandler"),
    ("final class Pool implements Closeable, Sized", "Pool"),
    # Kotlin
    ("    internal inline fun <reified T> parse(text: String): T {", "parse"),
    ("fun <T : Any> load(item: T) {", "load"),
    ("sealed class Result<out T> {", "Result"),
    ("class Boat @Inject constructor(", "Boat"),
    ("fun <T> Flow<T>.test(", "test"),
    # Rust
    ("    pub fn new() -> Self {", "new"),
    ("pub struct Queue<'a> {", "Queue"),
    ("impl<T> Stack<T> {", "Stack"),
    ("pub(crate) async fn match(&self) -> bool {", "match"),
    # Go
    ("func (s *Stack[T]) Push(x T) {", "Push"),
    ("func Map[K comparable, V any](m map[K]V) []K {", "Map"),
    ("type Set[T any] map[T]struct{}", "Set"),
    ("type point struct { x, y int }", "point"),
    ("type Handler func(w Writer, r *Request)", "Handler"),
    # C, C++
    ("struct Foo { int x; };", "Foo"),
    ("static char *names[] = {", "names"),
    ("char buf[256];", "buf"),
    ("Foo::Foo(int a) {", "Foo"),
    ("Foo::Foo(int a) : a_(a) {", "Foo"),
    ("std::map<std::string, int> counts_;", "counts_"),
    ("T& List<T>::at(size_t i) {", "at"),
    ("using Names = std::vector<std::string>;", "Names"),
    ("enum class level {", "level"),
    ("typedef struct entry {", "entry"),
    ("template <typename T> class buffer {", "buffer"),
    ("class sink final : public base {", "sink"),
    ("class sink : public Base {", "sink"),
    # Java
    ("    public <T extends Throwable> T getLast() {", "getLast"),
    # Haskell
    ("    , port :: Int", "port"),
    # C#
    ("    public async Task<int> Load() {", "Load"),
    ("    public List<string> Names { get; private set; }", "Names"),
    ("    public int count { get; }", "count"),
    ("    public bool IsOpen => state == State.Open;", "IsOpen"),
    # Ruby
    ("  def self.create(x)", "create"),
    ("  def valid?", "valid"),
    ("  def save!(now)", "save"),
    ("  attr_accessor :limit", "limit"),
    ("    t.integer :limit, null: false", "limit"),
    # Elixir
    ("    field :limit, :integer, default: 20", "limit"),
    ("  @type host :: String.t() | {:local, String.t()}", "host"),
    # Scala
    ("case class Boat(name: String)", "Boat"),
    # PHP
    ("    public static function create(string $name): self", "create"),
    ("    private $limit = 5;", "limit"),
    # Perl, PowerShell
    ("my $limit = 5;", "limit"),
    ("$MaxRetries = 5", "MaxRetries"),
    # Swift
    ("    func load(_ path: String) -> [Int] {", "load"),
    ("    var size: Int { 3 }", "size"),
    # SQL
    ("CREATE TABLE IF NOT EXISTS users (", "users"),
    ("create or replace function total(x int) returns int as $$", "total"),
    # shell
    ("load() {", "load"),
    ("export MAX=3", "MAX"),
]
STATEMENTS = [
    "    raise_error(",
    "  register(app, {",
    "  setState({",
    "    compute(first,",
    "describe('a boat', () => {",
    "describe('a boat', function () {",
    "  return new Foo(",
    "  throw new Foo(",
    "  return a < b;",
    "    with open(path) as file:",
    "    elif isinstance(x, int):",
    "    and is_open(x)",
    "    except (TypeError, ValueError):",
    "if (x) {",
    "else if (",
    "} else if (x) {",
    "for (",
    "    for await (const x of y) {",
    "switch x {",
    "switch (x) {",
    "match self {",
    "when (x) {",
    "    is Boat -> {",
    "    Some(x) => {",
    '    println!("{}", x);',
    "echo $X",
    "echo path",
    "import {a} from 'b'",
    "export { a } from 'b'",
    "x ? y : z",
    "    ? open(x)",
    "std::sort(",
    "std::for_each(a, b, [](int i) {",
    "case A:",
    "} catch (E e) {",
    "catch (E e) {",
    "foreach ($x as $y) {",
    "  next if (x)",
    "unless x",
    "go run(x)",
    "defer close(x)",
    "guard x else {",
    "SELECT name FROM users WHERE id IN (",
    "  AND age = 3",
    "Dear {{ name }}",
    "push @list, $x;",
    "$x =~ /5/",
    "expose 80",
    "using namespace std;",
    "using System.Text;",
    "raise :closed",
    "    async boat => boat.name,",
    "typedef struct {",
    "filterValue string",
]


@pytest.mark.parametrize(("line", "name"), DEFINITIONS)
def test_the_name_is_known_in_any_language(line: str, name: str) -> None:
    assert names(line) == [name]


@pytest.mark.parametrize("line", STATEMENTS)
def test_a_statement_defines_nothing(line: str) -> None:
    assert names(line) == []


@given(st.text(max_size=2000))
def test_whatever_the_text_its_names_stand_in_it(text: str) -> None:
    assert all(name in text for name in names(text))


@pytest.mark.parametrize("name", ["max_wait", "maxWait", "MAX_WAIT"])
def test_a_name_may_be_said_as_words_in_a_row(name: str) -> None:
    other = "wait = 3  # wait, wait\nmax = 4  # max, max\n"
    passages = [*of_file("a.py", other), *of_file("b.py", f"{name} = 7\n")]
    assert ranked(passages, "max wait?")[0].source == "b.py"
    assert ranked(passages, "wait, max?")[0].source == "a.py"


@pytest.mark.parametrize("name", ["--no-sort", "no-sort", "NO-SORT"])
@pytest.mark.parametrize("spelled", ["no_sort", "noSort", "no-sort"])
def test_words_that_hyphens_join_are_looked_for_together(name: str, spelled: str) -> None:
    other = "sort a sort, no? no: sort the sort\n"
    passages = [*of_file("a.c", other), *of_file("b.c", f"{spelled} keeps them as they are\n")]
    assert ranked(passages, f"What does {name} do?")[0].source == "b.c"


@pytest.mark.parametrize(
    ("question", "best"),
    [("When does the ferry sail?", "harbour"), ("Wann fährt die Fähre?", "hull")],
)
def test_words_that_a_model_added_count_less_than_those_it_chose(question: str, best: str) -> None:
    """Of a request in another language it can only add words, and they count in full."""
    texts = {"hull": "vessel departure\n", "harbour": "ferry sail\n", "quay": "nothing\n"}
    passages = [each for path, text in texts.items() for each in of_file(path, text)]
    assert ranked(passages, question, "ferry sail vessel departure")[0].source == best


@pytest.mark.parametrize(
    ("text", "defines"),
    [
        ('{\n  "http": {\n    "max_retries": 4\n  }\n}', ["max_retries"]),
        ("http:\n  max_retries: 4", ["http", "max_retries"]),
        ("@dataclass(frozen=True)\nclass Bag:\n    weight_kg: float", ["Bag"]),
        ("def run():\n    count = 4", ["run"]),
    ],
)
def test_keys_within_keys_are_defined_and_fields_of_a_class_are_not(
    text: str, defines: list[str]
) -> None:
    assert names(text) == defines
